"""A later version of the schema, as the next release might bring it: to it, this program is the previous version."""

import os
from pathlib import Path

from alembic.config import Config

from redraft.storage.engine import schema
from redraft.storage.engine.unit_of_work import Database

REVISION = "9999"


def upgrade_to_next_release(database: Database) -> None:
    schema.upgrade(database, config=next_config())


def next_config() -> Config:
    config = schema.make_config()
    ours = Path(str(config.get_main_option("script_location"))) / "versions"
    config.set_main_option("path_separator", "os")
    config.set_main_option("version_locations", os.pathsep.join([str(ours), str(Path(__file__).parent / "versions")]))
    return config
