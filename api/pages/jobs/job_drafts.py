"""The event stream of a job for its pages. It has the answer that is being generated as rendered Markdown."""

import json
import time
from collections.abc import Callable, Sequence

from fastapi import Response
from fastapi.sse import format_sse_event
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool

from api.dependencies import ContextOf
from api.pages.jobs.job_answers import shown_draft
from api.pages.parts.rendering import pages_router
from api.routes.jobs.history import LastEventId, events_after, read_position
from api.streams.jobs import stream
from redraft.messages import Delta

router = pages_router("/jobs/{job_id}")

# A text is sent again as a whole, so a longer text is sent less often
_REST_S, _CHARS_PER_S = 0.1, 20_000
_CUT = "… "


@router.get("/drafts")
async def follow_drafts(
    context: ContextOf, job_id: str, after: str | None = None, last_event_id: LastEventId = None
) -> Response:
    start = read_position(last_event_id, after)
    events, is_over = await run_in_threadpool(events_after, context, job_id, start)
    return Response(status_code=204) if is_over and not events else stream(context, job_id, start, Drafts().write)


class Drafts:
    """Joins the deltas of the candidates of an iteration, and renders their texts."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._iteration = 0
        self._texts: dict[int, tuple[int, str]] = {}
        self._next_at = 0.0

    async def write(self, deltas: Sequence[Delta]) -> bytes:
        """Return a frame with all texts so far. Empty if the last frame was sent a short time ago."""
        for delta in deltas:
            self._add(delta)
        if self._clock() < self._next_at:
            return b""
        texts = {candidate: text for candidate, (_, text) in sorted(self._texts.items())}
        html = await run_in_threadpool(_render, texts)
        self._next_at = self._clock() + _REST_S + sum(map(len, texts.values())) / _CHARS_PER_S
        data = {"iteration": self._iteration, "html": html}
        return format_sse_event(event="answer.draft", data_str=json.dumps(data))

    def _add(self, delta: Delta) -> None:
        if delta.iteration != self._iteration:
            self._iteration, self._texts = delta.iteration, {}
        attempt, text = self._texts.get(delta.candidate, (delta.attempt, ""))
        if attempt != delta.attempt or delta.offset == 0:
            text = ""
        # A page that was opened late has missed the beginning
        self._texts[delta.candidate] = delta.attempt, (text or _CUT * bool(delta.offset)) + delta.text


def _render(texts: dict[int, str]) -> Markup:
    drafts = {candidate: shown_draft(text, candidate) for candidate, text in texts.items()}
    if len(drafts) == 1:
        return next(iter(drafts.values()))
    return Markup().join(Markup("<h4>Candidate {}</h4>{}").format(*draft) for draft in drafts.items())
