"""`redraft ask --attach`: files become attachments with their names, and other files are refused."""

from pathlib import Path

from redraft.cli.exit_codes import Exit
from tests.media import PDF, PNG
from tests.support.shells import Shell


def test_images_and_pdfs_are_attached_under_their_names(office: Shell, tmp_path: Path) -> None:
    (tmp_path / "chart.png").write_bytes(PNG)
    (tmp_path / "notes.txt").write_bytes(PDF)
    files = ("--attach", "chart.png", "--attach", "notes.txt")
    done = office.run("ask", "Go.", "--crit", "good", *files, "--iter-max", "1", "--json")
    sent = done.data["request"]["attachments"]
    assert [(each["media_type"], each["title"]) for each in sent] == [
        ("image/png", "chart.png"),
        ("application/pdf", "notes.txt"),
    ]


def test_another_file_is_wrong_usage(office: Shell, tmp_path: Path) -> None:
    (tmp_path / "page.svg").write_text("<svg/>")
    refused = office.run("ask", "Go.", "--crit", "good", "--attach", "page.svg")
    assert refused.code == Exit.USAGE
    assert "page.svg is none of the types image/png" in " ".join(refused.err.replace("│", " ").split())
