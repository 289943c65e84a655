"""A job's request page shows its images and offers its PDFs; the form for a job takes files."""

from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from redraft.domain.jobs.attachments import PDF as PDF_TYPE
from redraft.operations.jobs import queries
from redraft.operations.services import Services
from redraft.storage.jobs.job_filters import JobFilter
from tests.media import PDF, PNG, attachment
from tests.pages.conftest import Visitor
from tests.support.api_server import ApiServer
from tests.support.html_pages import HtmlPage, Reader, text_of


def test_images_are_shown_and_pdfs_are_linked(reader: Reader, stored: Callable[..., str]):
    job_id = stored(attachments=[attachment(PNG, title="<b>Chart"), attachment(PDF, PDF_TYPE, title="Notes")])
    page = reader.go(f"/jobs/{job_id}/request")
    path = f"/v1/jobs/{job_id}/attachments/"
    links = [page.link(name).get("href") or "" for name in ("<b>Chart", "Notes")]
    assert [link.startswith(path) for link in links] == [True, True]
    [image] = [each for each in page.root.iter("img") if (each.get("src") or "").startswith(path)]
    assert image.get("src") == links[0]
    assert "Send the request again" not in text_of(page.root)


SENT = {"instruct": "What is shown?", "eval_crit": "Names it.", "do": "send"}


@pytest.fixture
def sender(api: ApiServer) -> httpx2.Client:
    return api.client(headers={"Accept": "text/html", "Sec-Fetch-Site": "same-origin"})


def test_files_are_chosen_and_sent(visitor: Visitor, services: Services, tmp_path: Path):
    page = visitor.go("/new")
    paths = [tmp_path / "chart \u00fc.png", tmp_path / "notes.pdf"]
    for path, content in zip(paths, (PNG, PDF), strict=True):
        path.write_bytes(content)
    page.get_by_label("Instruction", exact=True).fill("What is shown?")
    page.locator("#eval_crit").fill("Names it.")
    page.get_by_label("Images and PDFs").set_input_files(paths)
    page.locator("button[value=send]").click()
    page.wait_for_url("**/jobs/job_*")
    [job] = queries.list_jobs(services, JobFilter())[0]
    found = [(each["media_type"], each["title"], each["size"]) for each in job.request["attachments"]]
    assert found == [("image/png", "chart \u00fc.png", len(PNG)), ("application/pdf", "notes.pdf", len(PDF))]


def test_a_form_without_files_has_no_attachments(sender: httpx2.Client, services: Services):
    sent = sender.post("/new", data=SENT, files=[("attachments", ("", b""))])
    assert sent.status_code == 303
    [job] = queries.list_jobs(services, JobFilter())[0]
    assert job.request["attachments"] == []


def test_errors_of_files_are_at_their_field(sender: httpx2.Client, services: Services):
    files = [("attachments", ("page.svg", b"<svg/>")), ("attachments", ("<b>.png", PNG))]
    page = HtmlPage(sender.post("/new", data=SENT, files=files))
    words = page.described(page.field("Images and PDFs"))
    assert page.status == 422
    assert "page.svg is none of the types image/png" in words
    assert "Choose them again: page.svg, <b>.png" in words
    many = [("attachments", (f"{number}.png", PNG)) for number in range(21)]
    page = HtmlPage(sender.post("/new", data=SENT, files=many))
    assert "at most 20 are allowed" in page.described(page.field("Images and PDFs"))
    assert queries.list_jobs(services, JobFilter())[0] == []


def test_a_check_counts_files_and_says_that_they_are_lost(sender: httpx2.Client):
    page = HtmlPage(sender.post("/new", data={**SENT, "do": "check"}, files=[("attachments", ("a.png", PNG))]))
    assert page.status == 200
    assert "Choose them again: a.png" in page.described(page.field("Images and PDFs"))
    assert "The commands below leave out the images and PDFs" in page.text
    assert attachment(PNG)["data"] not in page.source


@pytest.mark.parametrize("body", [b"", b"instruct=a"])
def test_a_broken_form_is_refused(sender: httpx2.Client, body: bytes):
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    assert sender.post("/new", content=body, headers=headers).status_code == 400


def test_a_form_has_the_maximum_size_of_a_body(sender: httpx2.Client):
    sent = sender.post("/new", data=SENT, files=[("attachments", ("a.png", bytes(8_000_000)))])
    assert sent.status_code == 413
    assert "REDRAFT_MAX_BODY_BYTES" in sent.text


def test_a_clone_keeps_the_attachments_that_stay_checked(
    reader: Reader, sender: httpx2.Client, services: Services, stored: Callable[..., str]
):
    job_id = stored(attachments=[attachment(PNG, title="<b>Chart"), attachment(PDF, PDF_TYPE, title="Notes")])
    page = reader.go(f"/new?from={job_id}")
    boxes = [each for each in page.root.iter("input") if each.get("name") == "kept"]
    references = [each.get("value") or "" for each in boxes]
    assert [("checked" in each.attrib) for each in boxes] == [True, True]
    assert (page.link("<b>Chart").get("href") or "").startswith(f"/v1/jobs/{job_id}/attachments/")
    checked = HtmlPage(sender.post("/new", data={**SENT, "do": "check", "kept": references}))
    assert [each.get("value") for each in checked.root.iter("input") if each.get("name") == "kept"] == references
    sent = sender.post("/new", data={**SENT, "kept": references[1:]}, files=[("attachments", ("a.png", PNG))])
    assert sent.status_code == 303
    job = queries.get_job(services, sent.headers["Location"].rpartition("/")[2])
    found = [(each["media_type"], each["title"], each["size"]) for each in job.request["attachments"]]
    assert found == [("application/pdf", "Notes", len(PDF)), ("image/png", "a.png", len(PNG))]


@pytest.mark.parametrize("reference", ["", "job_x/abc", "no/thing/" + "0" * 5000])
def test_an_attachment_that_is_gone_is_an_error_at_its_field(sender: httpx2.Client, services: Services, reference: str):
    page = HtmlPage(sender.post("/new", data={**SENT, "kept": reference}))
    assert page.status == 422
    assert "or choose the file again" in page.described(page.field("Images and PDFs"))
    assert queries.list_jobs(services, JobFilter())[0] == []
