"""`python -m benchmarks.probed_worker FILE`: a worker process that writes the delays of its event loop to a file."""

import asyncio
import runpy
import sys
from pathlib import Path

from redraft.providers.shared.transport import CALLS_LOOP

_EVERY_S = 0.02
_LINES = 50


async def _probe(path: Path) -> None:
    loop = asyncio.get_running_loop()
    with path.open("a", buffering=1 << 20) as file:
        while True:
            for _ in range(_LINES):
                due = loop.time() + _EVERY_S
                await asyncio.sleep(_EVERY_S)
                file.write(f"{(loop.time() - due) * 1000:.3f}\n")
            file.flush()


if __name__ == "__main__":
    probe = CALLS_LOOP.submit(_probe(Path(sys.argv.pop())))
    runpy.run_module("worker", run_name="__main__", alter_sys=True)
