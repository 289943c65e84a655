"""Migrations run while the previous version works: they only add, wait for nobody long, and never run twice at once."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

from redraft.errors import Unavailable
from redraft.storage.engine import schema
from redraft.storage.engine.schema import UpgradeTimeouts
from redraft.storage.engine.unit_of_work import Database
from redraft.storage.jobs import jobs
from redraft.storage.jobs.jobs import JobRecord
from tests.storage.conftest import job_values
from tests.support.databases.postgres import PostgresServer
from tests.support.next_release import REVISION, next_config, upgrade_to_next_release
from tests.support.waiting import wait_until

pytestmark = pytest.mark.both_databases

HASTY = UpgradeTimeouts(other_upgrade_s=0.3, table_s=0.1, tries=2, pause_s=0.05)
STALLED_S = 5.0


def steps(config: Config) -> list[tuple[str, str]]:
    """Each revision after the first, with the one before it, in the order in which they are applied."""
    scripts = reversed(list(ScriptDirectory.from_config(config).walk_revisions()))
    return [(str(script.down_revision), script.revision) for script in scripts if script.down_revision]


@pytest.fixture(params=["sqlite", "postgresql"])
def bare(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database with nothing in it."""
    if request.param == "sqlite":
        database = Database(f"sqlite:///{tmp_path / 'bare.db'}")
        yield database
        database.close()
        return
    with postgresql(request.getfixturevalue("postgres"), is_bare=True) as database:
        yield database


@pytest.fixture(scope="module")
def current_schema(postgres: PostgresServer) -> Iterator[Database]:
    """A database whose tests change it only in transactions that they roll back."""
    with postgresql(postgres) as database:
        yield database


@contextmanager
def postgresql(server: PostgresServer, *, is_bare: bool = False) -> Iterator[Database]:
    """Its own database, with the schema unless it is bare."""
    name = server.create_database(is_bare=is_bare)
    database = Database(server.url_of(name))
    yield database
    database.close()
    server.drop_database(name)


def described(bind: Engine | Connection) -> dict[str, dict[str, Any]]:
    """What the code of this version knows of each table: its columns, and what refuses rows."""
    looked = inspect(bind)
    columns, checks = looked.get_multi_columns(), looked.get_multi_check_constraints()
    uniques, indexes = looked.get_multi_unique_constraints(), looked.get_multi_indexes()
    references = looked.get_multi_foreign_keys()
    return {
        table[1]: {
            "columns": {column["name"]: column for column in columns[table]},
            "checks": {check["sqltext"] for check in checks[table]},
            "unique": {tuple(each["column_names"]) for each in uniques[table]}
            | {tuple(each["column_names"]) for each in indexes[table] if each["unique"]},
            "references": {tuple(each["constrained_columns"]) for each in references[table]},
        }
        for table in columns
    }


def breaches(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> list[str]:
    """What would make a statement of the previous version fail."""
    found = [f"{table} is gone" for table in before.keys() - after.keys()]
    for table in before.keys() & after.keys():
        old, new = before[table], after[table]
        found += [f"{table}.{name} is gone" for name in old["columns"].keys() - new["columns"].keys()]
        for name, column in new["columns"].items():
            if name not in old["columns"]:
                if not (column["nullable"] or column["default"]):
                    found.append(f"{table}.{name} is new and must be given")
            elif str(column["type"]) != str(old["columns"][name]["type"]):
                found.append(f"{table}.{name} has another type")
            elif old["columns"][name]["nullable"] and not column["nullable"]:
                found.append(f"{table}.{name} must be given now")
        found += [f"{table}: new in checks: {each}" for each in new["checks"] - old["checks"]]
        for kind in ("unique", "references"):
            # The previous version leaves new columns empty, and no constraint refuses that
            found += [
                f"{table}: new in {kind}: {columns}"
                for columns in new[kind] - old[kind]
                if set(columns) <= old["columns"].keys()
            ]
    return found


def test_each_migration_leaves_the_previous_version_working(bare: Database):
    config, found = next_config(), {}
    (first, _), *_ = revisions = steps(config)
    schema.upgrade(bare, first, config=config)
    before = described(bare.engine)
    for previous, revision in revisions:
        assert schema.current(bare) == previous, "a branch"
        schema.upgrade(bare, revision, config=config)
        after = described(bare.engine)
        found[revision], before = breaches(before, after), after
    assert REVISION in found
    contracts = ScriptDirectory.from_config(config)
    # A contract-phase migration names the release since which nothing uses what it removes
    bound = {name: lines for name, lines in found.items() if not hasattr(module_of(contracts, name), "UNUSED_SINCE")}
    assert {name: lines for name, lines in bound.items() if lines} == {}


def module_of(scripts: ScriptDirectory, revision: str) -> Any:
    script = scripts.get_revision(revision)
    assert script is not None
    return script.module


@pytest.mark.parametrize(
    ("change", "breach"),
    [
        ("ALTER TABLE jobs DROP COLUMN guidance", "jobs.guidance is gone"),
        ("ALTER TABLE jobs RENAME COLUMN guidance TO advice", "jobs.guidance is gone"),
        ("ALTER TABLE jobs ADD COLUMN rank integer NOT NULL", "jobs.rank is new and must be given"),
        ("ALTER TABLE jobs ALTER COLUMN guidance SET NOT NULL", "jobs.guidance must be given now"),
        ("ALTER TABLE jobs ALTER COLUMN calls TYPE text", "jobs.calls has another type"),
        ("ALTER TABLE jobs ADD UNIQUE (model)", "jobs: new in unique: ('model',)"),
        ("ALTER TABLE jobs ADD CHECK (calls > 0)", "jobs: new in checks: calls > 0"),
        ("ALTER TABLE jobs ADD FOREIGN KEY (model) REFERENCES jobs", "jobs: new in references: ('model',)"),
        ("ALTER TABLE events RENAME TO happenings", "events is gone"),
    ],
)
def test_the_rule_for_migrations_sees_what_breaks_the_previous_version(
    current_schema: Database, change: str, breach: str
):
    with current_schema.engine.connect() as connection:
        before = described(connection)
        connection.execute(text(change))
        assert breach in breaches(before, described(connection))


def test_two_upgrades_at_once_do_not_meet(bare: Database):
    failures: list[Exception] = []

    def upgrade() -> None:
        other = Database(bare.url.render_as_string(hide_password=False))
        try:
            schema.upgrade(other)
        except Exception as error:  # noqa: BLE001 - each failure is what the test looks for
            failures.append(error)
        other.close()

    upgrades = [threading.Thread(target=upgrade) for _ in range(3)]
    for each in upgrades:
        each.start()
    for each in upgrades:
        each.join()
    assert failures == []
    assert schema.current(bare) == schema.head()


def test_an_upgrade_gives_up_while_another_one_runs(postgres: PostgresServer):
    with postgresql(postgres, is_bare=True) as database:
        with database.engine.connect() as other:
            other.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": schema._LOCK})
            with pytest.raises(Unavailable, match="Another `redraft db upgrade` is running") as refused:
                schema.upgrade(database, timeouts=HASTY)
        assert refused.value.code == "upgrade_running"
        schema.upgrade(database, timeouts=HASTY)


def hold_jobs(connection: Connection) -> int:
    """A transaction of a stranger that has looked at the jobs and does not end; its process."""
    connection.execute(text("SET application_name = 'a long report'"))
    connection.execute(text("SELECT count(*) FROM jobs"))
    return connection.scalar(text("SELECT pg_backend_pid()")) or 0


def test_an_upgrade_names_the_transaction_that_holds_a_table(postgres: PostgresServer):
    with postgresql(postgres) as database:
        with database.engine.connect() as stranger:
            pid = hold_jobs(stranger)
            with pytest.raises(Unavailable, match=f"process {pid}, a long report") as refused:
                schema.upgrade(database, config=next_config(), timeouts=HASTY)
        assert refused.value.code == "schema_locked"
        assert schema.current(database) == schema.head()
        upgrade_to_next_release(database)
        assert schema.current(database) == REVISION


def test_an_upgrade_that_met_a_locked_table_tries_again(postgres: PostgresServer):
    with postgresql(postgres) as database:
        with database.engine.connect() as stranger:
            hold_jobs(stranger)
            timeouts = UpgradeTimeouts(table_s=0.1, tries=100, pause_s=0.05)
            upgrading = threading.Thread(
                target=schema.upgrade, args=(database,), kwargs={"config": next_config(), "timeouts": timeouts}
            )
            upgrading.start()
            wait_until(lambda: waits_for_a_table(database), every_s=0.005, what="an upgrade that waits")
            wait_until(lambda: not waits_for_a_table(database), every_s=0.005, what="the end of its first try")
        upgrading.join()
        assert schema.current(database) == REVISION


def waits_for_a_table(database: Database) -> bool:
    with database.read() as connection:
        return bool(connection.scalar(text("SELECT count(*) FROM pg_locks WHERE NOT granted")))


def test_an_index_that_was_left_half_built_is_built_anew(postgres: PostgresServer):
    with postgresql(postgres) as database:
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("CREATE INDEX ix_iterations_model ON iterations (number)"))
            connection.execute(
                text("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_iterations_model'::regclass")
            )
        upgrade_to_next_release(database)
        (index,) = [each for each in inspect(database.engine).get_indexes("iterations") if "model" in str(each["name"])]
        assert index["column_names"] == ["generator_model"]


def test_jobs_are_written_while_the_schema_is_upgraded(database: Database, add_job: Callable[..., JobRecord]):
    add_job()
    writes: list[float] = []
    is_over = threading.Event()

    def write() -> None:
        while not is_over.is_set():
            began = time.monotonic()
            add_job()
            writes.append(time.monotonic() - began)

    writer = threading.Thread(target=write)
    writer.start()
    wait_until(lambda: len(writes) > 5)
    upgrade_to_next_release(database)
    count = len(writes)
    wait_until(lambda: len(writes) > count + 5)
    is_over.set()
    writer.join()
    assert max(writes) < STALLED_S


def test_labels_are_copied_beside_a_transaction_that_deletes_several_jobs(postgres: PostgresServer):
    rows = [job_values(metadata={"team": "a"}) for _ in range(3)]
    ids = [row["id"] for row in rows]
    with postgresql(postgres) as database:
        with database.write() as connection:
            for row in rows:
                jobs.add(connection, row, 600)
        delete, left = text("DELETE FROM jobs WHERE id = :id"), text("SELECT job_id FROM job_labels")
        copying = threading.Thread(target=copy_labels, args=(database,))
        with database.engine.connect() as other:
            other.execute(delete, {"id": ids[1]})
            copying.start()
            wait_until(lambda: is_copying(database), every_s=0.005, what="a copy of labels")
            other.execute(delete, {"id": ids[0]})
            other.commit()
        copying.join()
        with database.read() as connection:
            assert list(connection.scalars(left)) == [ids[2]]


def copy_labels(database: Database) -> None:
    """Copy the labels once more, as migration 0033 does."""
    module = module_of(ScriptDirectory.from_config(schema.make_config()), "0033")
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection)
        with context.begin_transaction(_per_migration=True), Operations.context(context):
            module._copy_labels()


def is_copying(database: Database) -> bool:
    """Whether the statement that copies labels was sent, which may have ended."""
    other = "pid <> pg_backend_pid() AND datname = current_database()"
    with database.read() as connection:
        sent = text(f"SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%AS MATERIALIZED%' AND {other}")
        return bool(connection.scalar(sent))


def test_a_schema_that_is_newer_than_the_program_stays_and_is_usable(database: Database):
    upgrade_to_next_release(database)
    found = schema.schema_state(database)
    assert (found.current, found.is_newer, found.is_usable) == (REVISION, True, True)
    schema.upgrade(database)
    assert schema.current(database) == REVISION


def test_a_schema_that_is_behind_is_not_usable(bare: Database):
    assert not schema.schema_state(bare).is_usable
    schema.upgrade(bare, "0001")
    assert not schema.schema_state(bare).is_usable


def test_every_foreign_key_has_an_index_that_holds_all_rows(database: Database):
    """Without one each deleted row reads the whole table that refers to it; a partial index does not serve."""
    looked, missing = inspect(database.engine), []
    for table in looked.get_table_names():
        keys = [looked.get_pk_constraint(table)["constrained_columns"]]
        keys += [each["column_names"] for each in looked.get_unique_constraints(table)]
        keys += [
            each["column_names"]
            for each in looked.get_indexes(table)
            if not any(option.endswith("_where") for option in each.get("dialect_options", {}))
        ]
        for reference in looked.get_foreign_keys(table):
            columns = reference["constrained_columns"]
            if not any(key[: len(columns)] == columns for key in keys):
                missing.append((table, columns))
    assert missing == []
