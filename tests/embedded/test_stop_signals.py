import signal
import sqlite3
import subprocess
import sys
from collections.abc import Generator

import pytest

from redraft.embedded.stop_signals import stop_signals

_THREE_SIGNALS = """
import signal
from redraft.embedded.stop_signals import stop_signals

with stop_signals():
    for number in {numbers}:
        signal.raise_signal(number)
    print("alive", flush=True)
"""


_SIGNALS_AT_THE_END = """
import signal
import sys
from redraft.embedded.stop_signals import stop_signals

with stop_signals() as signals:
    signal.raise_signal(signal.SIGINT)
signal.raise_signal(signal.SIGINT)
sys.exit(signals.exit_code)
"""


@pytest.fixture(autouse=True)
def handlers() -> Generator[None]:
    """After a signal the handlers stay, so the tests restore those of pytest."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_in_a_callback_of_a_library_is_recorded_and_breaks_nothing(number: int, code: int):
    """SQLite turns an exception of a callback, such as SystemExit of a handler, into an OperationalError."""

    def interrupted() -> int:
        signal.raise_signal(number)
        return 1

    database = sqlite3.connect(":memory:")
    database.create_function("interrupted", 0, interrupted)
    with stop_signals() as signals:
        assert not signals.is_stopping
        assert database.execute("SELECT interrupted()").fetchall() == [(1,)]
    database.close()
    assert signals.is_stopping
    assert not signals.is_urgent
    assert signals.exit_code == code


def test_the_second_signal_is_urgent_and_decides_the_exit_code():
    received: list[int] = []
    with stop_signals() as signals:
        signals.on_signal = lambda number, _frame: received.append(number)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    assert received == [signal.SIGTERM, signal.SIGINT]
    assert signals.is_urgent
    assert signals.exit_code == 130


def test_without_a_signal_the_handlers_from_before_are_restored():
    before = signal.getsignal(signal.SIGTERM)
    with stop_signals():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_after_the_stop_does_not_change_the_exit_code():
    ended = subprocess.run([sys.executable, "-c", _SIGNALS_AT_THE_END], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "")


@pytest.mark.parametrize(
    ("numbers", "code", "output"),
    [((15, 2), 0, "alive\n"), ((15, 2, 15), 0, ""), ((15, 15, 2), 130, "")],
)
def test_the_third_signal_ends_a_process_that_hangs(numbers: tuple[int, ...], code: int, output: str):
    command = [sys.executable, "-c", _THREE_SIGNALS.format(numbers=numbers)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (code, output)
