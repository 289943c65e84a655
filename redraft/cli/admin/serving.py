"""The commands `redraft serve` and `redraft worker`, which run until they are stopped."""

import contextlib
import os
import runpy
from collections.abc import Generator
from typing import TYPE_CHECKING, Annotated

import typer

from redraft.cli import output
from redraft.cli.sessions import ensure_schema, load_settings
from redraft.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from socket import socket

    from redraft.embedded.stop_signals import StopSignals
    from redraft.operations.services import Services
    from redraft.settings import Settings


def serve(
    host: Annotated[
        str | None, typer.Option(help="Address to listen on (default: REDRAFT_HOST).", show_default=False)
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port to listen on; 0 selects a free port (default: REDRAFT_PORT).",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run the API and the web pages, until Ctrl-C or SIGTERM.

    If REDRAFT_BROKER_URL is not set, the command also runs a broker and a worker on this machine.
    """
    changes = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    settings = load_settings().model_copy(update=changes)
    if settings.require_auth is False and not settings.is_loopback:
        raise Invalid(
            f"With REDRAFT_REQUIRE_AUTH=false, everyone who can reach {settings.host} can use your model keys."
            " Unset it and create a key with `redraft keys create NAME`, or listen on 127.0.0.1.",
            code="open_door",
        )
    _print_unknown_names()
    from redraft.embedded.stop_signals import stop_signals

    with stop_signals() as signals:
        _serve(settings, signals)
    raise typer.Exit(signals.exit_code)


def _serve(settings: "Settings", signals: "StopSignals") -> None:
    from redraft import embedded
    from redraft.embedded.broker import prepare_folders
    from redraft.embedded.listeners import listen, url_of
    from redraft.embedded.locks import only_server
    from redraft.logs import configure_logs

    configure_logs(settings.log_level, settings.log_format)
    # Other users of the machine must not read the database, the logs and the socket
    os.umask(0o077)
    prepare_folders(settings)
    with contextlib.ExitStack() as parts:
        publish_url = parts.enter_context(only_server(settings.data_dir)) if settings.is_embedded_broker else None
        listener = parts.enter_context(listen(settings.host, settings.port))
        url = url_of(listener, settings.host)
        if publish_url:
            publish_url(url)
        parts.enter_context(embedded.stack(settings, signals=signals))
        if not signals.is_stopping:
            _run_api(settings, listener, url, signals)


def _run_api(settings: "Settings", listener: "socket", url: str, signals: "StopSignals") -> None:
    hint = _hint(settings)

    def announce() -> None:
        reach = "" if settings.is_loopback else " and can be reached by other machines"
        output.write_data(f"Redraft is ready at {url}{reach} (Ctrl-C stops it).")
        if hint:
            output.say(hint, "yellow")

    # Imported late, so that the worker process imports the same modules at the same time
    from redraft.embedded.api_server import Api

    api = Api(settings, listener, announce)
    # Set before the check, so that a signal after the check sets `should_exit`, and the server ends at once
    signals.on_signal = api.handle_exit
    try:
        if not signals.is_stopping:
            api.serve_until_stopped()
    finally:
        grace = f"Calls in flight have {settings.shutdown_grace_s:g} s to end."
        output.say(f"Stopping. {grace} A second Ctrl-C stops at once.", "dim")


def _print_unknown_names() -> None:
    from redraft.operations.admin.setting_errors import unknown_names

    for name, meant in unknown_names().items():
        output.say(f"Note: {name} is not a setting" + (f"; did you mean {meant}?" if meant else "."), "yellow")


def _hint(settings: "Settings") -> str | None:
    """Return advice if no client has a valid API key yet, else None.

    Raises Unavailable if the database or its schema cannot be used.
    """
    from redraft.operations.admin.keys import list_keys

    with _services(settings) as services:
        if settings.is_auth_required and all(key["state"] != "valid" for key in list_keys(services)):
            return "Clients need an API key, and no valid key exists. Create a key with `redraft keys create NAME`."
    return None


@contextlib.contextmanager
def _services(settings: "Settings") -> Generator["Services"]:
    from redraft.runtime import build_runtime

    services = build_runtime(settings)
    try:
        ensure_schema(services)
        yield services
    finally:
        services.close()


def worker(
    concurrency: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=5000,
            help="Maximum number of steps at the same time (default: REDRAFT_WORKER_CONCURRENCY).",
            show_default=False,
        ),
    ] = None,
    *,
    task_events: Annotated[
        bool, typer.Option("--task-events", "-E", help="Send an event for each step to Celery's monitoring tools.")
    ] = False,
) -> None:
    """Run one worker process, until Ctrl-C or SIGTERM.

    The worker receives messages from the broker at REDRAFT_BROKER_URL.
    """
    os.umask(0o077)
    _print_unknown_names()
    settings = load_settings()
    _check_parts(settings)
    # The module `worker` reads its settings from the environment
    if concurrency is not None:
        os.environ["REDRAFT_WORKER_CONCURRENCY"] = str(concurrency)
    if task_events:
        os.environ["REDRAFT_TASK_EVENTS"] = "true"
    runpy.run_module("worker", run_name="__main__", alter_sys=True)


def _check_parts(settings: "Settings") -> None:
    """Raise Unavailable if no embedded broker runs or the schema cannot be used.

    An external broker may become reachable later, so an unreachable broker causes only a message.
    """
    from redraft.embedded.broker import answers

    if settings.is_embedded_broker and not answers(settings.broker_socket):
        raise Unavailable(
            f"No broker runs in {settings.data_dir}. `redraft serve` starts a broker and a worker. To run a worker"
            " alone, set REDRAFT_BROKER_URL.",
            code="no_broker",
        )
    with _services(settings) as services:
        try:
            services.queue.ping()
        except Unavailable as error:
            # If the broker refuses the password or the user's rights, a later attempt would fail, too
            if error.code == "broker_refuses":
                raise
            output.say(f"{error.message} The worker starts, and tries to connect again.", "yellow")
