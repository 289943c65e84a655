"""Opens the settings, the services, the schema and a worker for a command."""

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from redraft.cli import output
from redraft.errors import Conflict, FieldError, Invalid, NotFound, Unavailable

if TYPE_CHECKING:
    from redraft.operations.services import Services
    from redraft.settings import Settings

_GRACE_S = 1.0
_JOINED = "A running `redraft serve`, or another command on this data folder, has a worker: it does the work."
# The option that fixes an error, where it is not the field that the error names.
_MENDED_AT = {"too_many_judge_calls": "/evaluation/samples"}


def load_settings() -> "Settings":
    """Read the settings.

    Raises:
        Invalid: a value is wrong; each validation error names its setting.
    """
    from pydantic import ValidationError

    from redraft.settings import Settings

    try:
        settings = Settings()
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        errors = tuple(FieldError(_setting_name(each["loc"]), each["msg"], each["type"]) for each in found)
        raise Invalid("A setting has a wrong value.", errors) from error
    except ValueError as error:
        raise Invalid(f"The settings cannot be read: {error}") from error
    return settings


def _setting_name(location: tuple[int | str, ...]) -> str:
    if not location:
        return "settings"
    first = str(location[0])
    name = first if first.isupper() else f"REDRAFT_{first.upper()}"
    # The settings of the vendors' SDKs have names without the prefix, too
    if name not in os.environ and name.removeprefix("REDRAFT_") in os.environ:
        name = name.removeprefix("REDRAFT_")
    return ".".join([name, *map(str, location[1:])])


@contextmanager
def opened(*, needs_schema: bool = True) -> Generator["Services"]:
    """The services of the settings, with the schema in place."""
    with connected(load_settings()) as services:
        if needs_schema:
            ensure_schema(services)
        yield services


@contextmanager
def connected(settings: "Settings") -> Generator["Services"]:
    """The services of these settings, whatever state the database is in."""
    from redraft.logs import configure_logs
    from redraft.runtime import build_runtime

    configure_logs(settings.log_level if output.is_debug.get() else "CRITICAL", settings.log_format)
    try:
        services = build_runtime(settings)
    except OSError as error:
        words = f"The data folder {settings.data_dir} cannot be used: {error.strerror}. REDRAFT_DATA_DIR names another."
        raise Unavailable(words, code="data_dir") from error
    except ValueError as error:
        raise Invalid(f"The settings do not fit: {error}") from error
    try:
        yield services
    finally:
        services.close()


def ensure_schema(services: "Services") -> None:
    """Make or upgrade the database in the data folder; one outside is its owner's to upgrade.

    Raises:
        Unavailable: the schema of a database outside is not this version's.
    """
    from redraft.storage.engine import schema

    found = schema.standing(services.database)
    if found.is_usable:
        return
    if services.settings.database_url:
        state = "has no schema yet" if found.current is None else f"is at version {found.current}, not {found.head}"
        raise Unavailable(f"The database {state}: run `redraft db upgrade`.", code="schema_outdated")
    schema.upgrade(services.database)


@contextmanager
def worker_beside(services: "Services") -> Generator[Callable[[], None]]:
    """Run a broker and a worker until the end of the block, in embedded mode; else rely on external workers.

    Yields:
        A function to call regularly while waiting: it takes over when the process that owns the worker ends.

    Raises:
        Unavailable: the broker outside does not answer.
    """
    if services.settings.is_embedded_broker:
        from redraft import embedded

        settings = services.settings
        log = None if output.is_debug.get() else settings.data_dir.absolute() / "worker.log"
        # After the answer or Ctrl-C nobody needs the calls in flight: do not wait for them
        brief = settings.model_copy(update={"shutdown_grace_s": min(_GRACE_S, settings.shutdown_grace_s)})
        with embedded.stack(brief, worker_log=log) as stack:
            if not stack.is_owner:
                output.say(_JOINED, "dim")
            yield stack.ensure
        return
    services.queue.ping()
    if not is_worker_alive(services):
        output.say("No worker is alive, so nothing happens yet: start one with `redraft worker`.", "yellow")
    yield lambda: None


def is_worker_alive(services: "Services") -> bool:
    from redraft.operations.admin import health

    return health.alive_workers(services) > 0


def print_left(services: "Services", what: str, new_id: str, data: Any, *, as_json: bool) -> None:
    """Print the id of work that is left to workers, or its data; say on stderr how to watch it.

    Args:
        services: the services.
        what: the command that watches it: `jobs` or `runs`.
        new_id: the id.
        data: the resource as JSON values.
        as_json: print the data and not the id alone.
    """
    if as_json:
        output.write_json(data)
    else:
        output.write_data(new_id)
    watch = f"redraft {what} watch {new_id}"
    if is_worker_alive(services):
        output.say(f"A worker takes it up; watch it with: {watch}", "dim")
        return
    starter = "redraft serve" if services.settings.is_embedded_broker else "redraft worker"
    output.say(f"No worker is alive. Start one with `{starter}`, or with: {watch}", "yellow")


def pick(ids: Sequence[str], text: str, noun: str) -> str:
    """Return the one id that starts with a text, with or without its prefix.

    Raises:
        NotFound: none does.
        Conflict: several do.
    """
    found = [each for each in ids if text and (each.startswith(text) or each.partition("_")[2].startswith(text))]
    if not found:
        raise NotFound(noun, text)
    if len(found) > 1:
        raise Conflict(f"{text!r} is the beginning of several {noun}s' ids; write more of it.", code="ambiguous_id")
    return found[0]


def check(kind: Any, body: Any) -> Any:
    """Validate plain values as a request of this kind.

    Raises:
        Invalid: it is none; each validation error has its JSON pointer.
    """
    from pydantic import ValidationError

    from redraft.domain.bodies.pointers import place_of, words_of

    try:
        return kind.model_validate(body)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        errors = tuple(
            FieldError(_MENDED_AT.get(each["type"]) or place_of(each, body), words_of(each, body), each["type"])
            for each in found
        )
        raise Invalid("The request is not valid.", errors) from error
