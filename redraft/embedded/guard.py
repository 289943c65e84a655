"""A process between a parent and its child: `python -m redraft.embedded.guard LOCK GRACE_S SILENT_S COMMAND…`.

When the parent ends, the kernel closes the standard input of the guard, and the guard ends the child. Some children
cannot notice the end of the parent: Valkey, or a worker whose native code holds the interpreter's lock. If the guard is
killed, the kernel kills the child (Linux only). The guard also kills a child that stops giving signs of life, for
example after SIGSTOP. The guard imports only the standard library, so that it starts in a few milliseconds.
"""

import ctypes
import fcntl
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import IO

# A worker exits by itself within four seconds after the end of its parent
_ORPHAN_GRACE_S = 5.0
_PR_SET_PDEATHSIG = 1
_SLICES = 10


def main(lock_path: str, grace_s: str, silent_s: str, *command: str) -> int:
    """Run the command. End it if the parent ends, if a signal comes, or after `silent_s` without a sign of life.

    The command writes its signs of life to the file descriptor in the argument `--pulse=FD`. If `silent_s` is 0, the
    command gets no such argument, and is never ended for its silence.
    """
    lock = _lock(Path(lock_path)) if lock_path else None
    if lock_path and lock is None:
        return 0
    pulses, pulse = os.pipe()
    files = [lock.fileno()] if lock else []
    if float(silent_s):
        files.append(pulse)
        command = (*command, f"--pulse={pulse}")
    # The child inherits the lock, so the lock is free only after both have ended
    child = subprocess.Popen(  # noqa: S603 - our own arguments, no shell
        command,
        pass_fds=files,
        preexec_fn=_die_with_parent(),  # noqa: PLW1509 - no threads yet
    )
    os.close(pulse)
    if lock:
        lock.close()

    # A handler may interrupt another handler, so it must not wait for a lock. SimpleQueue.put never waits
    signals: SimpleQueue[int] = SimpleQueue()

    def receive(number: int, _frame: FrameType | None) -> None:
        signals.put(number)

    def end_on_signal() -> None:
        signals.get()
        _end(child, float(grace_s))

    threading.Thread(target=end_on_signal, daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, receive)
    threading.Thread(target=_watch_parent, args=(child,), daemon=True).start()
    threading.Thread(target=_watch_pulse, args=(child, pulses, float(silent_s)), daemon=True).start()
    code = child.wait()
    return code if code >= 0 else 128 - code


def _is_parent_gone(within_s: float | None) -> bool:
    """Whether the parent has ended. Polls standard input, but leaves its data to the child."""
    poll = select.poll()
    poll.register(0, 0)
    return bool(poll.poll(None if within_s is None else within_s * 1000))


def _lock(path: Path) -> IO[str] | None:
    """Lock the file. If an earlier child still holds the lock, wait until it ends, because it uses the same files.

    Returns None if the parent ends during the wait.
    """
    lock = path.open("a")
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if _is_parent_gone(0.02):
                lock.close()
                return None
        else:
            return lock


def _die_with_parent() -> Callable[[], object] | None:
    """Return a function for the child to call before its command starts, or None on other systems than Linux.

    The function makes the kernel kill the child when this process ends.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _watch_parent(child: "subprocess.Popen[bytes]") -> None:
    _is_parent_gone(None)
    _end(child, _ORPHAN_GRACE_S)


def _watch_pulse(child: "subprocess.Popen[bytes]", pulses: int, silent_s: float) -> None:
    """Kill the child if it gives no sign of life for `silent_s` after its first sign.

    The time is counted in short slices, so that the time in which this process itself is stopped does not count.
    """
    slice_s, left = silent_s / _SLICES, _SLICES
    is_received = True
    while left:
        if is_received:
            if not os.read(pulses, 4096):
                return
            left = _SLICES
        began_at = time.monotonic()
        is_received = bool(select.select([pulses], [], [], slice_s)[0])
        left -= not is_received and time.monotonic() - began_at < 2 * slice_s
    if child.poll() is None:
        sys.stderr.write(f"Process {child.pid} gave no sign of life for {silent_s:g} s: it is killed.\n")
        child.kill()


def _end(child: "subprocess.Popen[bytes]", grace_s: float) -> None:
    child.terminate()
    try:
        child.wait(grace_s)
    except subprocess.TimeoutExpired:
        child.kill()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
