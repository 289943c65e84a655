"""The items of a run page by page, in both directions, with their positions."""

from redraft.operations.services import Services
from tests.operations.bulk.test_runs import rows, start
from tests.operations.driving import Driver
from tests.support.html_pages import HtmlPage, Reader, text_of


def shown(page: HtmlPage) -> tuple[str, str, str]:
    """The position that the page tells, and its first and last item."""
    names = [text_of(each) for each in page.all("tbody//th")]
    [pager] = [each for each in page.all("nav") if each.get("aria-label") == "Pages"]
    return text_of(page.one("span", pager)).replace("\N{EN DASH}", "-"), names[0], names[-1]


def test_items_are_turned_over_both_ways_with_their_positions(reader: Reader, services: Services):
    run = start(Driver(services), rows(1110) + b"{}\n" * 60)
    page = reader.go(f"/runs/{run.id}/items")
    assert shown(page) == ("1-50 of 1,170", "r0", "r49")
    assert "Previous" not in page.text
    assert shown(reader.click("Next")) == ("51-100 of 1,170", "r50", "r99")
    assert shown(reader.click("Next")) == ("101-150 of 1,170", "r100", "r149")
    assert shown(reader.click("Previous")) == ("51-100 of 1,170", "r50", "r99")
    assert shown(reader.click("Previous")) == ("1-50 of 1,170", "r0", "r49")
    last = reader.go(f"/runs/{run.id}/items?after=1150")
    assert (shown(last)[0], "Next" in last.text) == ("1,151-1,170 of 1,170", False)
    assert shown(reader.click("First")) == ("1-50 of 1,170", "r0", "r49")


def test_filtered_items_have_positions_among_themselves(reader: Reader, services: Services):
    run = start(Driver(services), rows(3) + b"nonsense\n" * 60)
    assert shown(reader.go(f"/runs/{run.id}/items?status=invalid"))[0] == "1-50 of 60"
    assert shown(reader.click("Next"))[0] == "51-60 of 60"
    assert shown(reader.click("Previous"))[0] == "1-50 of 60"
    assert shown(reader.go(f"/runs/{run.id}/items?error_code=invalid_row"))[0] == "1-50 of 60"
    # A link to the middle of a filtered list knows no position
    assert shown(reader.go(f"/runs/{run.id}/items?status=invalid&after=5"))[0] == "60"
