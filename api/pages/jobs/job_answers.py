"""An answer as its page shows it: rendered, as it was written, or as the value that it is; never all of 5 MB."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from markupsafe import Markup

from api.pages.parts.citation_links import CitationMarker, link_plain, markers_of
from api.pages.parts.markdown import render_markdown
from redraft.operations.jobs.iterations import Iteration
from redraft.operations.jobs.resources import Job

RENDERED_CHARS_MAX = 40_000
RAW_CHARS_MAX = 100_000
CUT_CHARS = 20_000

View = Literal["rendered", "raw", "parsed"]


@dataclass(frozen=True, slots=True)
class CitedSource:
    """A source of the job, and the marks that point to it."""

    number: int
    title: str
    content: str
    marks: tuple[int, ...]
    quotes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What is shown of an answer.

    Attributes:
        shown: as HTML.
        text: all of it.
        is_final: whether it is the job's result, and not just the best so far.
        views: the other ways to look at it, and this one.
    """

    shown: Markup
    text: str
    view: View
    views: tuple[View, ...]
    is_cut: bool
    is_final: bool
    iteration: int | None
    sources: list[CitedSource]
    grounding_score: float | None


def answer_of(job: Job, iterations: Sequence[Iteration], view: str | None) -> Answer | None:
    """The job's answer, or the best one so far; None before the first one is judged."""
    result = job.result or _best_so_far(job, iterations)
    if result is None:
        return None
    text, parsed = result["final_answer"], result.get("parsed")
    views: tuple[View, ...] = ("rendered", "raw") if parsed is None else ("parsed", "rendered", "raw")
    chosen = views[views.index(view)] if view in views else views[0]
    shown_text = json.dumps(parsed, ensure_ascii=False, indent=2) if chosen == "parsed" else text
    limit = RENDERED_CHARS_MAX if chosen == "rendered" else RAW_CHARS_MAX
    is_cut = len(shown_text) > limit
    citations: list[dict[str, Any]] = result.get("citations") or []
    marks = [] if chosen == "parsed" else markers_of(citations, CUT_CHARS if is_cut else len(text))
    return Answer(
        shown=_shown(
            shown_text[:CUT_CHARS] if is_cut else shown_text, marks, is_rendered=chosen == "rendered" and not is_cut
        ),
        text=text,
        view=chosen,
        views=views,
        is_cut=is_cut,
        is_final=job.result is not None,
        iteration=result.get("best_iteration"),
        sources=_sources(job.request.get("sources") or [], citations, marks),
        grounding_score=result.get("grounding_score"),
    )


@dataclass(frozen=True, slots=True)
class PendingAnswer:
    """An answer that is being evaluated."""

    number: int
    candidate: int
    shown: Markup
    is_cut: bool


def pending_of(job: Job, iterations: Sequence[Iteration]) -> list[PendingAnswer]:
    """The answers of a job in work that wait for their verdicts."""
    if job.finished_at is not None:
        return []
    waiting = [each for each in iterations if each.evaluation is None]
    return [_pending(each) for each in waiting]


def _pending(iteration: Iteration) -> PendingAnswer:
    text = iteration.answer
    is_cut = len(text) > CUT_CHARS
    return PendingAnswer(
        iteration.number, iteration.candidate, _shown(text[:CUT_CHARS], [], is_rendered=not is_cut), is_cut
    )


def _best_so_far(job: Job, iterations: Sequence[Iteration]) -> dict[str, Any] | None:
    best = job.progress.best_iteration
    found = [each for each in iterations if each.number == best and each.evaluation is not None]
    if not found:
        return None
    chosen = max(found, key=lambda each: (each.evaluation and each.evaluation.score) or 0.0)
    return {"final_answer": chosen.answer, "best_iteration": best}


def _shown(text: str, marks: Sequence[CitationMarker], *, is_rendered: bool) -> Markup:
    if is_rendered:
        return Markup('<div class="answer">{}</div>').format(render_markdown(text, marks))
    return Markup("<pre>{}</pre>").format(link_plain(text, marks))


def _sources(
    sources: Sequence[Mapping[str, Any]], citations: Sequence[Mapping[str, Any]], marks: Sequence[CitationMarker]
) -> list[CitedSource]:
    quotes: dict[int, list[str]] = {}
    for each in citations:
        quotes.setdefault(each["source_number"], []).append(each["quoted_text"])
    return [
        CitedSource(
            number=number,
            title=source.get("title") or source.get("chunk_id") or source.get("document_id") or f"Source {number}",
            content=source["content"],
            marks=tuple(mark.number for mark in marks if number in mark.sources),
            quotes=tuple(dict.fromkeys(filter(None, quotes.get(number, [])))),
        )
        for number, source in enumerate(sources, 1)
    ]
