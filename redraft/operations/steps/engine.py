"""Runs the steps of one process: model calls on one event loop, the work between them in a few threads."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

from redraft.operations.calls.abort import CallsInFlight
from redraft.operations.calls.step_work import ModelCall, Pace, Together, WithSpeculation, Work
from redraft.providers.shared.transport import CALLS_LOOP

T = TypeVar("T")

DATABASE_CONNECTIONS = 4
# Fewer threads contend less with the event loop for the interpreter's lock. This is also the maximum number of steps in
# a group commit
QUICK_THREADS = 4
# Steps in these threads wait for child processes most of the time
_SLOW_THREADS = 64
# No code on the event loop may block, so a loop that gives no answer for this long is frozen
_HUNG_S = 60.0


class _Returned:
    """The return value of a generator. It replaces `StopIteration`, which a coroutine cannot raise."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Engine:
    """Runs the steps of this process. A model call in flight needs a socket and no thread."""

    def __init__(self) -> None:
        self._quick = ThreadPoolExecutor(QUICK_THREADS, "steps")
        self._slow = ThreadPoolExecutor(_SLOW_THREADS, "slow-steps")
        self._asked_at = self._answered_at = 0.0
        # The calls of each running step, by job. Used on the event loop only
        self._calls: defaultdict[str, set[CallsInFlight]] = defaultdict(set)

    def start(self, job_id: str, work: Work[T]) -> Future[T]:
        """Start a step of a job, from any thread. The future gets the result of the step."""
        return CALLS_LOOP.submit(self._run(job_id, work))

    def run(self, job_id: str, work: Work[T]) -> T:
        """Run a step of a job, and return its result."""
        return self.start(job_id, work).result()

    def abort(self, job_id: str) -> None:
        """Abort the calls of a job that has ended, from any thread. Its step gets a ProviderError `canceled`."""
        CALLS_LOOP.call_soon(self._abort, job_id)

    def _abort(self, job_id: str) -> None:
        for calls in self._calls.get(job_id, ()):
            calls.abort()

    def is_responding(self) -> bool:
        """Whether the event loop answers probes within a minute. This method sends them, so call it regularly."""
        if self._answered_at >= self._asked_at:
            self._asked_at = time.monotonic()
            CALLS_LOOP.call_soon(self._answer)
        return time.monotonic() - self._asked_at < _HUNG_S

    def _answer(self) -> None:
        self._answered_at = time.monotonic()

    def close(self) -> None:
        """Accept no further steps. Does not wait for running steps."""
        for threads in (self._quick, self._slow):
            threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, job_id: str, work: Work[T]) -> T:
        calls = CallsInFlight()
        steps = self._calls[job_id]
        steps.add(calls)
        try:
            return await self._drive(calls, work, self._quick)
        finally:
            steps.discard(calls)
            if not steps:
                self._calls.pop(job_id, None)

    async def _drive(self, calls: CallsInFlight, work: Work[Any], threads: Executor) -> Any:
        loop = asyncio.get_running_loop()
        reply: Any = None
        error: BaseException | None = None
        while True:
            wanted = await loop.run_in_executor(threads, _resume, work, reply, error)
            if isinstance(wanted, _Returned):
                return wanted.value
            reply = error = None
            if isinstance(wanted, Pace):
                threads = self._slow
                continue
            try:
                if isinstance(wanted, ModelCall):
                    reply = await calls.make(wanted)
                elif isinstance(wanted, WithSpeculation):
                    reply = await self._drive_both(calls, wanted, threads)
                else:
                    reply = await self._drive_all(calls, wanted, threads)
            except BaseException as raised:  # noqa: BLE001 - the step handles every error
                error = raised

    async def _drive_all(self, calls: CallsInFlight, wanted: Together, threads: Executor) -> list[Any]:
        room = asyncio.Semaphore(wanted.width)

        async def drive(part: Work[Any]) -> Any:
            async with room:
                return await self._drive(calls, part, threads)

        return await _all_of(drive(part) for part in wanted.parts)

    async def _drive_both(self, calls: CallsInFlight, wanted: WithSpeculation, threads: Executor) -> list[Any]:
        speculative = calls.part()

        async def drive_main() -> Any:
            result = await self._drive(calls, wanted.main, threads)
            if not wanted.is_needed(result):
                speculative.abort("its answer is not needed")
            return result

        return await _all_of([drive_main(), self._drive(speculative, wanted.speculative, threads)])


async def _all_of(parts: Iterable[Awaitable[Any]]) -> list[Any]:
    """Return the results of all parts. If one part fails, the others still run to their end, because they are paid."""
    ended = await asyncio.gather(*parts, return_exceptions=True)
    failed = next((each for each in ended if isinstance(each, BaseException)), None)
    if failed is not None:
        raise failed
    return ended


def _resume(work: Work[Any], reply: Any, error: BaseException | None) -> Any:
    try:
        return work.throw(error) if error is not None else work.send(reply)
    except StopIteration as end:
        return _Returned(end.value)
    except Exception:
        raise
    except BaseException as raised:
        if raised is error:
            raise
        # Such an exception would end the event loop, or the loop would mistake it for its own cancellation
        raise RuntimeError(f"The code of a step raised {type(raised).__name__}.") from raised
