"""Starts and resumes runs, and watches them until they end or a signal comes."""

import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Self, Unpack

from redraft.cli import output, sessions
from redraft.cli.backends import opening
from redraft.cli.bulk.dataset_files import Reading, import_named
from redraft.cli.bulk.finished_runs import Wanted, exit_of_run, print_invalid, print_run, resolved
from redraft.cli.bulk.run_progress import run_view
from redraft.cli.exit_codes import Exit
from redraft.datasets.items import Merger
from redraft.domain.bulk.phrases import count
from redraft.domain.bulk.run_requests import CreateRun, ResumeRun
from redraft.errors import RedraftError
from redraft.operations.bulk.run_resources import Run

if TYPE_CHECKING:
    from redraft.cli.backends.opening import Backend

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_POLL_EVERY_S = 0.3
_POLL_SELDOM_S = 5.0
# The pause is this multiple of the duration of the last query, because queries of large runs take longer
_REST = 10


def conduct(
    backend: "Backend", begin: Callable[[], str], finish: Callable[[str], Exit], *, cancels: bool = True
) -> Exit:
    """Start a run, show it until it ends, and print its report.

    `begin` starts the run and returns its id, and `finish` prints its report. If `cancels` is false, Ctrl-C ends the
    command, but not the run.
    """
    with _Interruption() as interruption, backend.worker_beside() as keep_alive:
        # Before this line no run exists, so Ctrl-C may end the command in its usual way
        interruption.listen()
        run_id = begin()
        with run_view() as show:
            _watch(backend, run_id, keep_alive, show, interruption)
        if interruption.signal == signal.SIGTERM:
            words = (
                "Terminated, but the run is not canceled. To continue it, or to watch it if other workers execute it:"
            )
            output.say(f"{words} redraft eval --resume {run_id}", "yellow")
            # The default handler ends this process at once, as a supervisor expects
            signal.raise_signal(signal.SIGTERM)
        if interruption.has_come and not (cancels and backend.cancels):
            output.say(f"The run continues. To watch it again: redraft runs watch {run_id}", "yellow")
            return Exit.INTERRUPTED
        if interruption.has_come:
            output.say(
                f"Canceling {run_id}. Items that have ended keep their results. A second Ctrl-C exits at once.",
                "yellow",
            )
            backend.cancel_run(run_id)
            output.say(f"Canceled. To execute the open items: redraft eval --resume {run_id}", "yellow")
        return finish(run_id)


def end(backend: "Backend", run_id: str, wanted: Wanted) -> Exit:
    """Print the report of a run that has ended."""
    run = backend.get_run(run_id)
    return exit_of_run(run, print_run(backend, run, wanted))


class _Interruption(AbstractContextManager["_Interruption"]):
    """Records Ctrl-C or SIGTERM for the loop of `_watch`, so that a signal never interrupts a query.

    A second signal ends this process by the signal itself, which a shell reports as 130. The embedded broker and
    worker end with this process (`redraft/embedded/parent_death.py`).
    """

    def __init__(self) -> None:
        self.signal: int | None = None

    @property
    def has_come(self) -> bool:
        return self.signal is not None

    def __enter__(self) -> Self:
        self._received, self._sent = socket.socketpair()
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        _handle(self._before)
        self._received.close()
        self._sent.close()

    def listen(self) -> None:
        _handle(dict.fromkeys(_SIGNALS, self._on_signal))

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.signal = number
        _handle(dict.fromkeys(_SIGNALS, signal.SIG_DFL))
        # Python resumes `select` after a signal handler (PEP 475), so a byte on the socket ends the wait
        self._sent.send(b"!")

    def wait(self, seconds: float) -> None:
        """Wait for this time, or until a signal comes."""
        select.select([self._received], [], [], seconds)


def _handle(handlers: Mapping[signal.Signals, Any]) -> None:
    # Python accepts signal handlers in the main thread only
    if threading.current_thread() is threading.main_thread():
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _watch(
    backend: "Backend",
    run_id: str,
    keep_alive: Callable[[], None],
    show: Callable[[Run], None],
    interruption: _Interruption,
) -> None:
    while not interruption.has_come:
        began_at = time.monotonic()
        run = backend.get_run(run_id)
        show(run)
        if run.status != "running":
            return
        keep_alive()
        took = time.monotonic() - began_at
        interruption.wait(min(_POLL_SELDOM_S, max(_POLL_EVERY_S, took * _REST)))


def start_run(rows: str, body: Mapping[str, Any], wanted: Wanted, *, detach: bool, **reading: Unpack[Reading]) -> int:
    """Start a run with the rows of a file or a stored dataset, and return the exit code. Without `detach`, watch it."""
    # An error in the request must come before the rows are read. The id of the dataset is known only afterwards
    ready = sessions.check(CreateRun, {**body, "dataset_id": ""})
    Merger(ready.defaults, ready.overrides)  # Wrong defaults must cause an error before a long file is read
    with opening.opened() as backend:
        wanted = resolved(backend, wanted)
        dataset, is_new = import_named(backend, rows, **reading)
        request = ready.model_copy(update={"dataset_id": dataset.id})

        def begin() -> str:
            run = backend.create_run(request)
            output.say(f"{run.id}: {count(run.counts.total, 'item')} of {output.one_line(run.name, 100)}", "dim")
            if run.delivery == "batch":
                output.say("Its calls are delivered by batches. The results of each round may take up to 24 hours.")
            elif run.delivery_reason:
                output.say(f"Its calls are made live. {run.delivery_reason}")
            print_invalid(backend, run)
            return run.id

        with _removed_without_a_run(backend, dataset.id) if is_new else nullcontext():
            if detach:
                opening.print_detached(backend, "run", begin(), as_json=wanted.as_json)
                return 0
            return conduct(backend, begin, lambda run_id: end(backend, run_id, wanted))


@contextmanager
def _removed_without_a_run(backend: "Backend", dataset_id: str) -> Generator[None]:
    """Delete the dataset if its run is refused. If a run already uses the dataset, the dataset stays."""
    try:
        yield
    except BaseException:  # Ctrl-C before the start of the run must also delete the dataset
        with suppress(RedraftError):
            backend.delete_dataset(dataset_id)
        raise


def resume_run(run: str, wanted: Wanted, *, retry: str, max_cost: float | None, detach: bool) -> int:
    """Resume a run, and return the exit code. Without `detach`, watch it."""
    body = sessions.check(ResumeRun, {"retry": retry, "max_cost_usd": max_cost})
    with opening.opened_for("run", run) as (backend, run_id):
        wanted = resolved(backend, wanted)

        def begin() -> str:
            _print_resumed(backend.resume_run(run_id, body))
            return run_id

        if detach:
            opening.print_detached(backend, "run", begin(), as_json=wanted.as_json)
            return 0
        return conduct(backend, begin, lambda _: end(backend, run_id, wanted))


def _print_resumed(run: Run) -> None:
    left = run.counts.queued + run.counts.running
    if left:
        output.say(f"{run.id}: {left:,} of {count(run.counts.total, 'item')} not ended", "dim")
        return
    advice = "; --retry-errors executes failed items again" if run.counts.failed else ""
    output.say(f"{run.id}: no item is open{advice}.")
