"""The titles of the pages of runs: the state, the name and the page. A run without a worker says so."""

from redraft.operations.bulk import runs
from redraft.operations.services import Services
from tests.model_server import ModelServer
from tests.operations.bulk.test_runs import rows, start, work_off
from tests.operations.driving import Driver
from tests.support.html_pages import Reader
from tests.support.showcase import beat


def title_of(reader: Reader, path: str) -> str:
    return reader.go(path).texts("title")[0].removesuffix(" · Redraft")


def test_titles_tell_state_name_and_page(reader: Reader, services: Services, model_server: ModelServer):
    driver = Driver(services)
    done = work_off(driver, start(driver, rows(2, iter_max=1), name="done"))
    goes_on = start(driver, rows(2, iter_max=1), name="goes on")
    for path, page in (("", "Run"), ("/items", "Items"), ("/delete", "Delete")):
        assert title_of(reader, f"/runs/{done.id}{path}") == f"✓ done · {page}"
    for path, page in (("", "Run"), ("/items", "Items")):
        assert title_of(reader, f"/runs/{goes_on.id}{path}") == f"↻ goes on · {page}"
        live = reader.page.by_id("live")
        assert live.get("data-title") == f"↻ goes on · {page} · Redraft"
    compared = f"/runs/compare?baseline={done.id}&run={goes_on.id}"
    assert title_of(reader, compared) == "↻ goes on against done · Comparison"
    runs.cancel_run(services, goes_on.id)
    assert title_of(reader, f"/runs/{goes_on.id}") == "✗ goes on · Run"
    assert title_of(reader, f"/runs/{goes_on.id}/resume").startswith("✗ goes on · Resume")
    assert title_of(reader, compared) == "✓ goes on against done · Comparison"


def test_an_unfinished_run_says_that_no_worker_is_alive(reader: Reader, services: Services):
    run = start(Driver(services), rows(1))
    assert "No worker is alive." in reader.go(f"/runs/{run.id}").text
    beat(services)
    assert "No worker is alive." not in reader.go(f"/runs/{run.id}").text


def test_a_row_without_an_id_is_headed_by_its_question(reader: Reader, services: Services, model_server: ModelServer):
    driver = Driver(services)
    lines = b'{"custom_id": "own", "instruct": "Which river?"}\n{"instruct": "Why is the sky blue?"}\n'
    old, new = (work_off(driver, start(driver, lines, name=name)) for name in ("old", "new"))
    page = reader.go(f"/runs/compare?baseline={old.id}&run={new.id}")
    assert set(page.texts("tbody/tr/th/a", page.region("Rows side by side"))) == {"own", "Why is the sky blue?"}
    assert reader.click("Why is the sky blue?").texts("h1") == ["Why is the sky blue?"]
