"""Watches a run until it ends or Ctrl-C comes."""

import select
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any, Self

from redraft.cli import output, sessions
from redraft.cli.bulk.run_ends import Wanted, exit_of_run, print_run
from redraft.cli.bulk.run_progress import RunView, make_run_view
from redraft.cli.exits import Exit
from redraft.operations.bulk import runs
from redraft.operations.services import Services

_POLL_EVERY_S = 0.3
_POLL_SELDOM_S = 5.0
# A query takes longer for a larger run: the pause is this multiple of the duration of the last query.
_REST = 10


def conduct(services: Services, begin: Callable[[], str], wanted: Wanted, *, cancels: bool = True) -> Exit:
    """Start a run, show it until it ends, and print its result.

    Args:
        services: the services.
        begin: starts the run; returns its id.
        wanted: the output and the gates.
        cancels: whether Ctrl-C cancels the run, or only stops watching.
    """
    with _Interruption() as interruption, sessions.worker_beside(services) as keep_alive:
        interruption.listen()
        run_id = begin()
        with make_run_view() as view:
            _watch(services, run_id, keep_alive, view, interruption)
        if interruption.has_come and not cancels:
            output.say(f"No longer watching; the run is not canceled. Again: redraft runs watch {run_id}", "yellow")
            return Exit.INTERRUPTED
        if interruption.has_come:
            _cancel(services, run_id)
        return end(services, run_id, wanted)


def end(services: Services, run_id: str, wanted: Wanted) -> Exit:
    """Print the result of a run that has ended."""
    run = runs.get_run(services, run_id)
    gates = print_run(services, run, wanted)
    return exit_of_run(run, gates)


class _Interruption(AbstractContextManager["_Interruption"]):
    """Turns Ctrl-C into a flag that the watching loop checks, so that it never interrupts a query.

    A second Ctrl-C ends this process by the signal itself, which a shell reports as 130. The embedded broker and
    worker end with this process (`redraft/embedded/lifelines.py`).
    """

    def __init__(self) -> None:
        self.has_come = False

    def __enter__(self) -> Self:
        self._heard, self._hearing = socket.socketpair()
        self._before = signal.getsignal(signal.SIGINT)
        return self

    def __exit__(self, *_: object) -> None:
        _handle(self._before)
        self._heard.close()
        self._hearing.close()

    def listen(self) -> None:
        _handle(self._notice)

    def _notice(self, _number: int, _frame: FrameType | None) -> None:
        self.has_come = True
        _handle(signal.SIG_DFL)
        self._hearing.send(b"!")

    def wait(self, seconds: float) -> None:
        """Wait for this time, or until Ctrl-C comes."""
        select.select([self._heard], [], [], seconds)


def _handle(handler: Any) -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


def _watch(
    services: Services, run_id: str, keep_alive: Callable[[], None], view: RunView, interruption: _Interruption
) -> None:
    while not interruption.has_come:
        began_at = time.monotonic()
        run = runs.get_run(services, run_id)
        view.show(run)
        if run.status != "running":
            return
        keep_alive()
        took = time.monotonic() - began_at
        interruption.wait(min(_POLL_SELDOM_S, max(_POLL_EVERY_S, took * _REST)))


def _cancel(services: Services, run_id: str) -> None:
    output.say(f"Canceling {run_id}; ended items are kept. Ctrl-C again exits at once.", "yellow")
    runs.cancel_run(services, run_id)
    output.say(f"Canceled. Complete the open items with: redraft eval --resume {run_id}", "yellow")
