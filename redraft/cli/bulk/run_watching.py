"""Watches a run together with the person at the terminal, Ctrl-C included."""

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
# Looking costs the more the larger a run is: so many times as long as it took, nothing is asked.
_REST = 10


def conduct(services: Services, begin: Callable[[], str], wanted: Wanted, *, cancels: bool = True) -> Exit:
    """Set a run going, show it until it ends, and tell what came of it.

    Args:
        services: the services.
        begin: sets the run going; returns its id.
        wanted: what is told, and asked of it.
        cancels: whether Ctrl-C ends the run too, or the watching alone.
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
    """Tell what has come of a run that has ended."""
    run = runs.get_run(services, run_id)
    gates = print_run(services, run, wanted)
    return exit_of_run(run, gates)


class _Interruption(AbstractContextManager["_Interruption"]):
    """Ctrl-C, once it is listened for: noticed where the watching waits, never in the midst of a query.

    A second one ends this process by the signal itself, which a shell tells as 130, whatever it waits for. Broker
    and worker of ours end with it (`redraft/embedded/lifelines.py`).
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
        """Wait so long, or until Ctrl-C comes."""
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
    output.say(f"Canceling {run_id}; what has ended is kept. Ctrl-C again leaves at once.", "yellow")
    runs.cancel_run(services, run_id)
    output.say(f"Canceled. What is open is done with: redraft eval --resume {run_id}", "yellow")
