"""Provides commands with settings, services, the database schema, and a worker."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from redraft.cli import output
from redraft.errors import Conflict, FieldError, Invalid, NotFound, Unavailable

if TYPE_CHECKING:
    from redraft.operations.services import Services
    from redraft.settings import Settings

# After the answer or Ctrl-C no result of a call in flight is needed, so the worker stops soon
_GRACE_S = 1.0
_JOINED = "The worker of a running `redraft serve`, or of another command on this data folder, executes the steps."
# The request field that a user has to change, if it differs from the field of the validation error
_FIXED_AT = {"too_many_judge_calls": "/evaluation/samples"}


def load_settings() -> "Settings":
    """Read the settings. Raises Invalid if a value is wrong. Each error names its setting."""
    from redraft.operations.admin import setting_errors

    return setting_errors.load_settings()


@contextmanager
def opened() -> Generator["Services"]:
    """Yield services whose database has the current schema."""
    with connected(load_settings()) as services:
        ensure_schema(services)
        yield services


@contextmanager
def connected(settings: "Settings | None" = None) -> Generator["Services"]:
    """Yield services without a check of the schema.

    Raises Invalid if the settings are wrong, and Unavailable if the data folder cannot be used.
    """
    from redraft.logs import configure_logs
    from redraft.runtime import build_runtime

    settings = settings or load_settings()
    configure_logs(settings.log_level if output.is_debug.get() else "CRITICAL", settings.log_format)
    try:
        services = build_runtime(settings)
    except OSError as error:
        words = f"The data folder {settings.data_dir} cannot be used: {error.strerror}. Change REDRAFT_DATA_DIR."
        raise Unavailable(words, code="data_dir") from error
    except ValueError as error:
        raise Invalid(f"The settings contradict each other: {error}") from error
    try:
        yield services
    finally:
        services.close()


def ensure_schema(services: "Services") -> None:
    """Create or upgrade the schema of the SQLite database in the data folder.

    A database that REDRAFT_DATABASE_URL names is not changed, because its owner decides when to upgrade it. Raises
    Unavailable (`schema_outdated`) if this program cannot use its schema.
    """
    from redraft.storage.engine import schema

    found = schema.schema_state(services.database)
    if found.is_usable:
        return
    if services.settings.database_url:
        state = "has no schema yet" if found.current is None else f"is at version {found.current}, not {found.head}"
        raise Unavailable(f"The database {state}: run `redraft db upgrade`.", code="schema_outdated")
    schema.upgrade(services.database)


@contextmanager
def worker_beside(services: "Services") -> Generator[Callable[[], None]]:
    """Run an embedded broker and a worker until the end of the block. With an external broker, start neither.

    The caller must call the yielded function regularly. The function starts a worker if the process that owned the
    embedded worker has ended. Raises Unavailable if an external broker does not answer.
    """
    if services.settings.is_embedded_broker:
        from redraft import embedded

        settings = services.settings
        # On the terminal, log lines of the worker would be mixed with the progress
        log = None if output.is_debug.get() else settings.data_dir.absolute() / "worker.log"
        brief = settings.model_copy(update={"shutdown_grace_s": min(_GRACE_S, settings.shutdown_grace_s)})
        with embedded.stack(brief, worker_log=log) as stack:
            if not stack.is_owner:
                output.say(_JOINED, "dim")
            yield stack.ensure
        return
    from redraft.operations.admin import readiness

    services.queue.ping()
    if not readiness.alive_workers(services):
        output.say("No worker is alive, so no step is executed. Start a worker with `redraft worker`.", "yellow")
    yield lambda: None


def pick(ids: Sequence[str], text: str, noun: str) -> str:
    """Return the only id that begins with a text. Raises NotFound if no id does, and Conflict if several do."""
    # An empty text would be the beginning of every id
    found = [each for each in ids if text and (each.startswith(text) or each.partition("_")[2].startswith(text))]
    if not found:
        raise NotFound(noun, text)
    if len(found) > 1:
        raise Conflict(f"The ids of several {noun}s begin with {text!r}. Write a longer prefix.", code="ambiguous_id")
    return found[0]


def check(kind: Any, body: Any) -> Any:
    """Validate plain values as a request of class `kind`. Raises Invalid with the JSON pointer of each error."""
    from pydantic import ValidationError

    from redraft.datasets.columns import guess
    from redraft.domain.bodies.validation_errors import message_of, pointer_of

    def words_of(error: Any) -> str:
        is_unknown_name = error["type"] == "extra_forbidden" and len(error["loc"]) == 1
        known = [field.alias or name for name, field in kind.model_fields.items()]
        return message_of(error, body) + (guess(str(error["loc"][0]), known) if is_unknown_name else "")

    try:
        return kind.model_validate(body)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        errors = tuple(
            FieldError(_FIXED_AT.get(each["type"]) or pointer_of(each, body), words_of(each), each["type"])
            for each in found
        )
        raise Invalid("The request is not valid.", errors) from error
