import base64
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from sqlalchemy import update

from redraft.operations.jobs import lifecycle, submit
from redraft.operations.services import Services
from redraft.storage.engine.tables import jobs
from tests.api.conftest import REQUEST, assert_problem

MOMENT = datetime(2026, 11, 1, 12, 30, 15, 123000, tzinfo=UTC)


@pytest.fixture
def submit_together(services: Services, submit_job: Callable[..., str]) -> Callable[[int], set[str]]:
    """Store jobs that were created at the very same moment."""

    def store(count: int) -> set[str]:
        ids = {submit_job() for _ in range(count)}
        with services.database.write() as connection:
            connection.execute(update(jobs).where(jobs.c.id.in_(ids)).values(created_at=MOMENT))
        return ids

    return store


def pages(client: httpx2.Client, **query: Any) -> Iterator[list[str]]:
    after: dict[str, str] = {}
    while True:
        page = client.get("/v1/jobs", params={**query, **after}).json()
        yield [job["id"] for job in page["data"]]
        if page["next_cursor"] is None:
            return
        after = {"after": page["next_cursor"]}


def listed(client: httpx2.Client, **query: Any) -> set[str]:
    return {job["id"] for job in client.get("/v1/jobs", params=query).json()["data"]}


# Case E05
@pytest.mark.both_databases
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_each_of_many_jobs_of_one_moment_is_listed_once(
    client: httpx2.Client, submit_together: Callable[[int], set[str]], submit_job: Callable[..., str], order: str
):
    together = submit_together(25)
    walk = pages(client, limit=10, order=order)
    seen = next(walk)
    later = {submit_job() for _ in range(3)}
    for page in walk:
        seen += page
    assert len(seen) == len(set(seen))
    assert set(seen) == (together if order == "desc" else together | later)
    assert seen[:25] == sorted(together, reverse=order == "desc")


def test_the_last_page_has_no_cursor(client: httpx2.Client, submit_job: Callable[..., str]):
    assert client.get("/v1/jobs").json() == {"data": [], "next_cursor": None}
    ids = [submit_job() for _ in range(4)]
    assert list(pages(client, limit=2)) == [ids[:1:-1], ids[1::-1]]


@pytest.mark.both_databases
def test_filters_narrow_and_combine(client: httpx2.Client, services: Services, submit_job: Callable[..., str]):
    plain = submit_job()
    tagged = submit_job(model="anthropic:claude", metadata={"team.a": "x", "n": "1"})
    other = submit_job(metadata={"team.a": "y"})
    given = submit.EvaluateAnswer.model_validate({**REQUEST, "answer": "a"})
    judged = submit.submit(services, given).job.id
    lifecycle.cancel(services, other)
    everything = {plain, tagged, other, judged}
    assert listed(client) == everything
    assert listed(client, status="queued") == everything - {other}
    assert listed(client, status=["queued", "canceled"]) == everything
    assert listed(client, stop_reason="canceled") == {other}
    assert listed(client, kind="evaluate_answer") == {judged}
    assert listed(client, model="anthropic:claude") == {tagged}
    assert listed(client, **{"metadata.team.a": "x"}) == {tagged}
    assert listed(client, **{"metadata.team.a": "x", "metadata.n": "2"}) == set()
    assert listed(client, **{"metadata.team.a": "x", "metadata.n": "1", "status": "queued"}) == {tagged}
    assert listed(client, created_after="2026-01-01T00:00:00Z", created_before="2100-01-01T00:00:00Z") == everything
    assert listed(client, created_before="2026-01-01T00:00:00+01:00") == set()
    assert listed(client, created_after="2026-01-01", created_before="9999-12-31T23:59:59-14:00") == everything


# Case T2-16
def test_the_plus_of_an_offset_need_not_be_escaped(client: httpx2.Client, submit_together: Callable[[int], set[str]]):
    together = submit_together(1)
    for plus in ("+", "%2B", "%20"):
        before = f"/v1/jobs?created_before=2026-11-01T{{}}:00:00{plus}02:00"
        assert client.get(before.format(14)).json()["data"] == []
        assert {job["id"] for job in client.get(before.format(15)).json()["data"]} == together


def test_listed_jobs_have_the_shape_of_single_ones(client: httpx2.Client, submit_job: Callable[..., str]):
    job_id = submit_job()
    assert client.get("/v1/jobs").json()["data"] == [client.get(f"/v1/jobs/{job_id}").json()]


# Case E05
def test_what_cannot_be_listed_by_is_named(client: httpx2.Client, services: Services):
    unfit = {
        "limit": ["0", "-1", "abc", "100000", "9" * 40],
        "status": ["done", ""],
        "stop_reason": ["tired"],
        "kind": ["essay"],
        "order": ["random"],
        "created_after": ["yesterday", "2026-13-01", "1767225600", "2026-01-01T00:00:00+2"],
        "created_before": ["1e400"],
        "model": ["m" * 221],
    }
    for name, values in unfit.items():
        for value in values:
            problem = assert_problem(client.get("/v1/jobs", params={name: value}), 422)
            assert problem["errors"][0]["pointer"].startswith(f"query/{name}"), problem


# Case E05
def test_a_forged_cursor_is_refused(client: httpx2.Client):
    moment = MOMENT.isoformat()
    inside = [
        "",
        "nonsense",
        moment,
        f"{moment}|",
        f"{moment}|job_x",
        f"{moment}|job_\x00",
        f"never|job_{'0' * 32}",
        f"0001-01-01T00:00:00+14:00|job_{'0' * 32}",
    ]
    forged = [base64.urlsafe_b64encode(text.encode()).decode() for text in inside]
    for cursor in (*forged, "!", "=", "ä", "x", "/w=="):
        problem = assert_problem(client.get("/v1/jobs", params={"after": cursor}), 422, "invalid_cursor")
        assert problem["errors"][0]["pointer"] == "query/after"
    assert_problem(client.get("/v1/jobs", params={"after": "x" * 501}), 422)


@pytest.mark.both_databases
def test_metadata_filters_take_any_name(client: httpx2.Client, submit_job: Callable[..., str]):
    names = ["a'b", 'a"b', "a.b", "$", "ä", "%", "[0]"]
    ids = {name: submit_job(metadata={name: "v'\"%"}) for name in names}
    for name in names:
        assert listed(client, **{f"metadata.{name}": "v'\"%"}) == {ids[name]}


def test_a_list_of_jobs_does_not_hold_their_iterations(client: httpx2.Client, services: Services, submit_job):
    submit_job()
    assert "iterations" not in client.get("/v1/jobs").json()["data"][0]


def test_large_answers_are_packed_for_who_asks(client: httpx2.Client, submit_together: Callable[[int], set[str]]):
    submit_together(3)
    packed = client.get("/v1/jobs", headers={"Accept-Encoding": "gzip"})
    plain = client.get("/v1/jobs", headers={"Accept-Encoding": "identity"})
    assert (packed.headers["content-encoding"], "content-encoding" in plain.headers) == ("gzip", False)
    assert packed.headers["vary"] == "Accept-Encoding"
    assert packed.json() == plain.json()


def test_head_is_answered_like_get_without_a_body(client: httpx2.Client, submit_job: Callable[..., str]):
    for path in ("/v1/jobs", f"/v1/jobs/{submit_job()}", "/v1/models", "/v1/usage", "/openapi.json", "/jobs"):
        head, get = client.head(path), client.get(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == get.headers["content-type"]
