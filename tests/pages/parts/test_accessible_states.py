"""States of pages that axe looks at besides their first sight: all details opened, long answers, what is unfinished."""

from collections.abc import Callable

from redraft.operations.services import Services
from tests.model_server import ModelServer
from tests.operations.bulk.test_runs import rows, start, under_way
from tests.operations.driving import Driver
from tests.pages.conftest import Visitor

LONG = "\n\n".join(
    [f"# Part {n}\n\n" + "The river is wide. " * 30 for n in range(1, 5)] + ["```\ncode\n```", "|a|\n|-|\n|b|"]
)


def check_opened(visitor: Visitor, path: str) -> None:
    page = visitor.go(path)
    page.evaluate("document.querySelectorAll('main details').forEach((each) => { each.open = true; })")
    visitor.check_accessible(in_the_dark=True)


def test_the_description_of_the_api_is_accessible_and_opens_at_its_links(visitor: Visitor):
    page = visitor.go("/docs#generate_answer")
    operation = page.locator("#generate_answer")
    assert operation.is_visible()
    operation.get_by_role("link", name="GenerateAnswer").click()
    assert page.locator("#schema-GenerateAnswer").is_visible()
    check_opened(visitor, "/docs")


def test_a_long_answer_is_accessible(visitor: Visitor, model_server: ModelServer, stored: Callable[..., str]):
    model_server.script(generate=[LONG], evaluate=[0.9])
    job_id = stored()
    for path in (f"/jobs/{job_id}", "/ratings"):
        check_opened(visitor, path)


def test_what_is_unfinished_is_accessible(visitor: Visitor, services: Services, model_server: ModelServer):
    model_server.script(generate=[LONG], evaluate=[0.2])
    driver = Driver(services)
    run = start(driver, rows(2), max_in_flight=1)
    job_id = under_way(driver, run)[0]
    # One answer is evaluated, and the next one is not yet
    for _ in range(3):
        driver.step(job_id)
    for path in (f"/runs/{run.id}", f"/runs/{run.id}/items", f"/jobs/{job_id}", f"/jobs/{job_id}/iterations"):
        check_opened(visitor, path)
