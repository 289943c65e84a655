"""Lists by keyboard, and times that stay true."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.pages.conftest import Visitor


def test_j_and_k_move_x_marks_and_enter_opens(visitor: Visitor, submit_job: Callable[..., str]):
    first, second, third = (submit_job(instruct=f"Question {n}?") for n in range(3))
    page = visitor.go("/jobs")
    for key in ("j", "j", "j", "j", "k"):
        page.keyboard.press(key)
    expect(page.locator(f"#{second}")).to_have_attribute("aria-selected", "true")
    expect(page.locator('[aria-selected="true"]')).to_have_count(1)
    page.keyboard.press("x")
    expect(page.locator(f"#{second} input")).to_be_checked()
    expect(page.locator("tbody input:checked")).to_have_count(1)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/jobs/{second}?list=")
    assert {first, third}.isdisjoint(page.url.replace("?", "/").split("/"))


def test_keys_typed_into_a_field_are_text(visitor: Visitor, submit_job: Callable[..., str]):
    submit_job()
    page = visitor.go("/new")
    page.get_by_label("Instruction", exact=True).first.fill("")
    page.get_by_label("Instruction", exact=True).first.press_sequentially("jkx")
    expect(page.get_by_label("Instruction", exact=True).first).to_have_value("jkx")


def test_times_stay_true_while_a_page_is_open(visitor: Visitor, submit_job: Callable[..., str]):
    submit_job()
    visitor.page.clock.install()
    page = visitor.go("/jobs")
    page.clock.fast_forward("05:00")
    expect(page.locator("tbody time").first).to_have_text("5 min ago")
