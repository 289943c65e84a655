"""Rows attach files by paths that stay within the folder of the dataset file."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from redraft.datasets.attachment_paths import AttachedFiles
from tests.datasets.reading import bad_row_of, row_of
from tests.media import PDF, PNG, attachment


@pytest.fixture
def attached(tmp_path: Path) -> AttachedFiles:
    folder = tmp_path / "data"
    (folder / "images").mkdir(parents=True)
    (folder / "images" / "a.png").write_bytes(PNG)
    (folder / "b").write_bytes(PDF)
    (folder / "page.svg").write_text("<svg/>")
    (tmp_path / "secret.png").write_bytes(PNG)
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "inner.png").symlink_to("images/a.png")
    (folder / "circle.png").symlink_to("circle.png")
    os.mkfifo(folder / "pipe.png")
    return AttachedFiles(folder, 1_000, 1_000)


def row(value: Any) -> str:
    return json.dumps({"instruct": "Go.", "attachments": value}) + "\n"


def test_paths_become_files(attached: AttachedFiles):
    own = attachment(PNG)
    value = ["images/a.png", {"path": "b", "title": "Notes"}, "inner.png", own]
    assert row_of(row(value), attached=attached).fields["attachments"] == [
        attachment(PNG, title="a.png"),
        attachment(PDF, "application/pdf", title="Notes"),
        attachment(PNG, title="inner.png"),
        own,
    ]


@pytest.mark.parametrize("cell", ["images/a.png", '"[""images/a.png""]"', '"[{""path"": ""images/a.png""}]"'])
def test_a_cell_has_a_path_or_a_list(attached: AttachedFiles, cell: str):
    found = row_of(f"instruct,attachments\nGo.,{cell}\n", "rows.csv", attached=attached)
    assert found.fields["attachments"] == [attachment(PNG, title="a.png")]


def test_the_content_of_a_file_decides_the_version_of_the_row(attached: AttachedFiles):
    before = row_of(row("images/a.png"), attached=attached).digest
    (attached.folder / "images" / "a.png").write_bytes(PNG + b"\0")
    assert row_of(row("images/a.png"), attached=attached).digest != before


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("../secret.png", "must be relative"),
        ("images/../../secret.png", "must be relative"),
        ("/etc/passwd", "must be relative"),
        ("link.png", "'link.png' leads out of the folder"),
        ("circle.png", "'circle.png' cannot be read"),
        ("pipe.png", "'pipe.png' is not a file"),
        ("images", "'images' is not a file"),
        ("absent.png", "'absent.png' does not exist in the folder"),
        ("page.svg", "'page.svg' is none of the types image/png"),
        ("x" * 5_000, "cannot be read"),
        ("", "must be the path"),
        ("a\x00", "must be the path"),
        ({"path": 7}, "must be the path"),
        ({"path": "b", "data": "AA=="}, "beside path only title is allowed, not data"),
    ],
)
def test_other_paths_make_a_row_bad(attached: AttachedFiles, entry: Any, words: str):
    bad = bad_row_of("\n" + row(["b", entry]), "rows.jsonl", attached=attached)
    [error] = bad.errors
    assert (bad.line, error.pointer, error.code) == (2, "/attachments/1/path", "invalid_path")
    assert error.detail.startswith("attachments.1: ")
    assert words in error.detail


def test_the_sizes_of_a_file_and_of_a_row_are_limited(attached: AttachedFiles):
    size = len(PNG)
    small = AttachedFiles(attached.folder, size, 2 * size - 1)
    row_of(row(["images/a.png"]), attached=small)
    [error] = bad_row_of(row(["images/a.png", "images/a.png"]), attached=small).errors
    assert f"has {size} bytes; at most {size - 1} are allowed" in error.detail
    [error] = bad_row_of(row(["b"]), attached=AttachedFiles(attached.folder, 9, 1_000)).errors
    assert "at most 9 are allowed" in error.detail


@pytest.mark.parametrize("value", ["images/a.png", ["images/a.png"], [{"path": "images/a.png"}]])
def test_without_a_folder_paths_are_refused(value: Any):
    [error] = bad_row_of(row(value)).errors
    assert error.code == "invalid_path"
    assert "a path is read only on the command line" in error.detail
