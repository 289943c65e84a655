"""Folders that cannot be used, and files that are no database: said plainly, with what to do."""

from pathlib import Path

import pytest

from redraft.embedded.broker import prepare_folders
from redraft.errors import Unavailable
from redraft.settings import Settings
from redraft.storage.engine import schema
from redraft.storage.engine.unit_of_work import Database


@pytest.mark.parametrize("inner", ["", "deeper"])
def test_a_data_folder_that_is_a_file_is_named_with_its_setting(tmp_path: Path, inner: str):
    file = tmp_path / "file"
    file.write_text("no folder")
    with pytest.raises(Unavailable) as caught:
        prepare_folders(Settings(_env_file=None, data_dir=file / inner if inner else file))  # pyright: ignore[reportCallIssue]
    assert caught.value.code == "data_folder_unusable"
    assert "REDRAFT_DATA_DIR" in caught.value.message


def test_a_file_that_is_no_database_is_named_as_such(tmp_path: Path):
    (tmp_path / "redraft.db").write_bytes(b"this is no database " * 500)
    database = Database(f"sqlite:///{tmp_path}/redraft.db")
    with pytest.raises(Unavailable) as caught:
        schema.upgrade(database)
    assert "REDRAFT_DATABASE_URL" in caught.value.message
    database.close()


def test_a_new_database_is_its_owners_alone_in_a_folder_that_others_can_enter(tmp_path: Path):
    tmp_path.chmod(0o755)
    database = Database(f"sqlite:///{tmp_path}/redraft.db")
    schema.upgrade(database)
    assert {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {0o600}
    database.close()
