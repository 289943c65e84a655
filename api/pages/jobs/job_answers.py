"""Prepares answers for pages, as rendered Markdown, raw text or parsed JSON. Very long answers are cut."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from markupsafe import Markup

from api.pages.parts.markdown import CitationMarker, link_plain, markers_of
from api.pages.parts.rendered_answers import RENDERED_CHARS_MAX, RenderedAnswer, render_answer
from redraft.operations.jobs.iterations import Iteration
from redraft.operations.jobs.resources import Job

RAW_CHARS_MAX = 100_000
CUT_CHARS = 20_000

View = Literal["rendered", "raw", "parsed"]


@dataclass(frozen=True, slots=True)
class CitedSource:
    """A source of the job, with the numbers of the citation markers that cite it."""

    number: int
    title: str
    content: str
    marks: tuple[int, ...]
    quotes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as its page shows it. `text` is the whole answer.

    `is_final` is false for the best answer of a job that has not ended.
    """

    shown: RenderedAnswer
    text: str
    view: View
    views: tuple[View, ...]
    is_cut: bool
    is_final: bool
    iteration: int | None
    sources: list[CitedSource]
    grounding_score: float | None


def answer_of(job: Job, iterations: Sequence[Iteration], view: str | None) -> Answer | None:
    """Return the answer of the job, or the best answer so far. Return None before the first evaluation."""
    result = job.result or _best_so_far(job, iterations)
    if result is None:
        return None
    text, parsed = result["final_answer"], result.get("parsed")
    views: tuple[View, ...] = ("rendered", "raw") if parsed is None else ("parsed", "rendered", "raw")
    chosen = views[views.index(view)] if view in views else views[0]
    shown_text = json.dumps(parsed, ensure_ascii=False, indent=2) if chosen == "parsed" else text
    is_cut = len(shown_text) > (RENDERED_CHARS_MAX if chosen == "rendered" else RAW_CHARS_MAX)
    # A cut text could be rendered as different Markdown, so a cut answer is shown raw
    is_rendered = chosen == "rendered" and not is_cut
    citations: list[dict[str, Any]] = result.get("citations") or []
    markers = [] if chosen == "parsed" else markers_of(citations, CUT_CHARS if is_cut else len(text))
    return Answer(
        shown=_shown(shown_text[:CUT_CHARS] if is_cut else shown_text, "answer", markers, is_rendered=is_rendered),
        text=text,
        view=chosen,
        views=views,
        is_cut=is_cut,
        is_final=job.result is not None,
        iteration=result.get("best_iteration"),
        sources=_sources(job.request.get("sources") or [], citations, markers),
        grounding_score=result.get("grounding_score"),
    )


def pending_of(job: Job, iterations: Sequence[Iteration]) -> list[dict[str, Any]]:
    """Return the answers that wait for their evaluations. The list is empty if the job has ended."""
    found: list[dict[str, Any]] = []
    for each in iterations if job.finished_at is None else ():
        if each.evaluation is None:
            is_cut = len(each.answer) > CUT_CHARS
            shown = _shown(each.answer[:CUT_CHARS], f"pending-{each.candidate}", [], is_rendered=not is_cut).html
            found.append({"number": each.number, "candidate": each.candidate, "shown": shown, "is_cut": is_cut})
    return found


def shown_draft(text: str, candidate: int) -> Markup:
    """Render the text of an answer that is being generated like a complete answer."""
    return _shown(text[:RAW_CHARS_MAX], f"draft-{candidate}", [], is_rendered=len(text) <= CUT_CHARS).html


def _best_so_far(job: Job, iterations: Sequence[Iteration]) -> dict[str, Any] | None:
    best = job.progress.best_iteration
    found = [each for each in iterations if each.number == best and each.evaluation is not None]
    if not found:
        return None
    chosen = max(found, key=lambda each: (each.evaluation and each.evaluation.score) or 0.0)
    return {"final_answer": chosen.answer, "best_iteration": best}


def _shown(text: str, name: str, markers: Sequence[CitationMarker], *, is_rendered: bool) -> RenderedAnswer:
    if is_rendered:
        rendered = render_answer(text, name, markers)
        return replace(rendered, html=Markup('<div class="answer">{}</div>').format(rendered.html))
    return RenderedAnswer(Markup("<pre>{}</pre>").format(link_plain(text, markers)), [])


def _sources(
    sources: Sequence[Mapping[str, Any]], citations: Sequence[Mapping[str, Any]], markers: Sequence[CitationMarker]
) -> list[CitedSource]:
    quotes: dict[int, list[str]] = {}
    for each in citations:
        quotes.setdefault(each["source_number"], []).append(each["quoted_text"])
    return [
        CitedSource(
            number=number,
            title=source.get("title") or source.get("chunk_id") or source.get("document_id") or f"Source {number}",
            content=source["content"],
            marks=tuple(marker.number for marker in markers if number in marker.sources),
            quotes=tuple(dict.fromkeys(filter(None, quotes.get(number, [])))),
        )
        for number, source in enumerate(sources, 1)
    ]
