"""What a job's pages cost: a fixed number of statements, whatever the job has done, and few bytes."""

import gzip
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from sqlalchemy import event

from redraft.operations.evaluation import rating_queue
from tests.model_server import ModelServer
from tests.operations.rubrics import criterion, found
from tests.support.api_server import ApiServer

BROWSER = {"Accept": "text/html"}
TABS = ("", "/iterations", "/iterations?from=1&to=2", "/calls", "/events", "/request")
ANSWER = "The sky is blue because light scatters. " * 60
COMPRESSED_MAX = 60_000


@pytest.fixture
def jobs(model_server: ModelServer, stored: Callable[..., str]) -> tuple[str, str]:
    """One of two iterations, one of ten."""
    rubric = [criterion(name) for name in ("short", "true", "clear")]
    model_server.script(
        generate=[f"{number} {ANSWER}" for number in range(12)], evaluate=[found(short=True, true=False, clear=False)]
    )
    fields = {"rubric": rubric, "eval_crit": None, "stop": {"plateau_patience": 0}}
    return stored(iter_max=2, **fields), stored(iter_max=10, **fields)


@contextmanager
def counted(api: ApiServer) -> Iterator[list[str]]:
    """The statements that the server executes meanwhile."""
    engine, found = api.app.state.context.services.database.engine, list[str]()

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if not statement.startswith("BEGIN"):
            found.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", note)


def page_of(client: httpx2.Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200, path
    return response.text


@pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)
def test_a_tab_takes_as_many_statements_for_ten_iterations_as_for_two(api: ApiServer, jobs: tuple[str, str]):
    client = api.client(headers=BROWSER)
    for tab in TABS:
        counts: list[int] = []
        for job_id in jobs:
            with counted(api) as statements:
                page_of(client, f"/jobs/{job_id}{tab}")
            counts.append(len(statements))
        assert counts[0] == counts[1] <= 8, (tab, statements)
    with counted(api) as statements:
        page_of(client, "/ratings")
    assert len(statements) <= 8


def test_a_page_is_light_without_the_answers_themselves(api: ApiServer, jobs: tuple[str, str]):
    client = api.client(headers=BROWSER)
    for path in (*(f"/jobs/{jobs[1]}{tab}" for tab in TABS), "/ratings", "/ratings?blind=1"):
        text = page_of(client, path)
        assets = [client.get(each) for each in re.findall(r'(?:href|src)="(/static/[^"]+)"', text)]
        weight = len(gzip.compress(text.replace(ANSWER, "").encode()))
        weight += sum(len(gzip.compress(each.content)) for each in assets)
        assert weight < COMPRESSED_MAX, (path, weight)
        assert client.get(path).headers["content-encoding"] == "gzip"


def test_the_queue_looks_no_further_back_than_it_says(api: ApiServer):
    assert f"latest {rating_queue.LOOKBACK} evaluations" in page_of(api.client(headers=BROWSER), "/ratings")
