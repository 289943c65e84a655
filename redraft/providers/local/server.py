"""The process that serves a local model: `python -m redraft.providers.local.server FOLDER MODEL CONTEXT`.

The process runs as long as another process has a lock on `users.lock` in its folder. The kernel releases the locks of
an ended process, so no server runs without users. To start fast, this module imports only the file names from Redraft.
"""

import fcntl
import json
import os
import secrets
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from redraft.providers.local.files import LocalFiles

SLOTS = 2
_USERS_CHECK_S = 0.5
_LOCK_WAIT_S = 3.0
_EXIT_WAIT_S = 1.5


def main(folder: str, model: str, context_tokens: str) -> int:
    """Serve the model until no process uses the server. Return the exit code."""
    files = LocalFiles(Path(folder))
    lock = _lock_or_none(files.server_lock)
    if lock is None:
        sys.stderr.write("Another server runs in this folder.\n")
        return 0
    files.state.unlink(missing_ok=True)
    key = secrets.token_urlsafe(24)
    try:
        server = _start(model, int(context_tokens), key)
    except RuntimeError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    state = {"url": f"{server.listening_address}/v1", "key": key, "model": model, "pid": os.getpid()}
    _publish(files.state, state)
    users = files.users_lock.open("a")
    while not _is_free(users):
        time.sleep(_USERS_CHECK_S)
    # This process keeps the exclusive lock on `users.lock` until it exits: a new user waits for the lock, and then
    # starts a new server
    files.state.unlink(missing_ok=True)
    _exit_at_latest(_EXIT_WAIT_S)
    del server
    return 0


def _start(model: str, context_tokens: int, key: str) -> Any:
    # The extension has no types.
    llama: Any = import_module("xllamacpp")
    params = llama.CommonParams()
    params.model.path = model
    # Replies name the model, and traces contain that name. Without an alias it would be the path of the file
    params.model_alias = {Path(model).stem}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.n_parallel = SLOTS
    params.n_ctx = context_tokens * SLOTS
    params.ui = False
    params.endpoint_slots = False
    for threads in (params.cpuparams, params.cpuparams_batch):
        # llama.cpp's threads wait for each other by spinning. With one thread for each core, any other load on the
        # machine makes the model ten times slower than with one free core
        threads.n_threads = max(1, _cores() - 1)
        threads.poll = 0
    return llama.Server(params)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _lock_or_none(path: Path) -> IO[str] | None:
    """Return the locked file, or None if another server has the lock."""
    # This waits shortly, because each process that checks for a live server holds the lock for a moment
    lock = path.open("a")
    give_up_at = time.monotonic() + _LOCK_WAIT_S
    while not _is_free(lock):
        if time.monotonic() > give_up_at:
            lock.close()
            return None
        time.sleep(0.02)
    return lock


def _is_free(lock: IO[str]) -> bool:
    """Take an exclusive lock if no other process has a lock. Return whether it was taken."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _publish(path: Path, state: dict[str, Any]) -> None:
    """Write the state file atomically."""
    # Only the owner can read it, because it has the key
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(state, file)
    draft.replace(path)


def _exit_at_latest(seconds: float) -> None:
    timer = threading.Timer(seconds, os._exit, args=(0,))
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
