"""A job's request page shows its images and offers its PDFs."""

from collections.abc import Callable

from redraft.domain.jobs.attachments import PDF as PDF_TYPE
from tests.media import PDF, PNG, attachment
from tests.support.html_pages import Reader, text_of


def test_images_are_shown_and_pdfs_are_linked(reader: Reader, stored: Callable[..., str]):
    job_id = stored(attachments=[attachment(PNG, title="<b>Chart"), attachment(PDF, PDF_TYPE, title="Notes")])
    page = reader.go(f"/jobs/{job_id}/request")
    path = f"/v1/jobs/{job_id}/attachments/"
    links = [page.link(name).get("href") or "" for name in ("<b>Chart", "Notes")]
    assert [link.startswith(path) for link in links] == [True, True]
    [image] = [each for each in page.root.iter("img") if (each.get("src") or "").startswith(path)]
    assert image.get("src") == links[0]
    assert "Send the request again" not in text_of(page.root)
