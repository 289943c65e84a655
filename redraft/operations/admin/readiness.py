"""Checks whether database, schema, broker and workers are ready."""

from collections.abc import Callable
from dataclasses import dataclass

from redraft.errors import Unavailable
from redraft.operations.services import Services
from redraft.storage.admin import workers
from redraft.storage.engine import schema


@dataclass(frozen=True, slots=True)
class Check:
    """The state of one part. `detail` is a phrase about the state, with a remedy if the part is not ready."""

    name: str
    is_ready: bool
    detail: str


def check_readiness(services: Services) -> list[Check]:
    """Check database, migrations, workers and broker. Each check ends within a few seconds."""
    checks: list[Check] = []
    # Migrations need the database, and workers need the schema: a later check would only repeat the same error
    for name, probe in (("database", _database), ("migrations", _migrations), ("workers", _workers)):
        if all(check.is_ready for check in checks):
            checks.append(_check(services, name, probe))
    return [*checks, _check(services, "broker", _broker)]


def _check(services: Services, name: str, probe: Callable[[Services], str]) -> Check:
    try:
        return Check(name, is_ready=True, detail=probe(services))
    except Unavailable as error:
        return Check(name, is_ready=False, detail=error.message)


def _database(services: Services) -> str:
    with services.database.read() as connection:
        connection.exec_driver_sql("SELECT 1")
    return services.database.url.get_backend_name()


def _migrations(services: Services) -> str:
    found = schema.schema_state(services.database)
    if not found.is_usable:
        raise Unavailable(found.remedy, code="schema_outdated")
    return f"at {found.current}, newer than this program's {found.head}" if found.is_newer else f"at {found.head}"


def _workers(services: Services) -> str:
    alive = alive_workers(services)
    if not alive:
        raise Unavailable("No worker is alive: start one with `redraft worker`.", code="no_worker")
    return f"{alive} alive"


def alive_workers(services: Services) -> int:
    """Return the number of workers with a heartbeat within the last three intervals."""
    with services.database.read() as connection:
        return len(workers.alive(connection, within_s=3 * services.settings.heartbeat_s))


def _broker(services: Services) -> str:
    services.queue.ping()
    return "answers"
