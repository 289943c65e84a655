"""Formats citations, claims and the grounding score of an answer as lines."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from redraft.cli import output
from redraft.cli.source_files import title_of
from redraft.cli.views.verdicts import MET, NOT_MET, SIGNS, Line, has_signs
from redraft.domain.bulk.phrases import format_score
from redraft.domain.grounding.reference_lists import write_endnotes

if TYPE_CHECKING:
    from redraft.domain.evaluation.claims import Claim
    from redraft.operations.jobs.iterations import ClaimCheckResult, GroundingResult, Iteration
    from redraft.operations.jobs.resources import Job

_SHOWN_MAX = 10
_QUOTED_MAX = 3
_LABELS = {"supported": "supported", "contradicted": "contradicted", "not_found": "not supported"}


def score_text(found: "GroundingResult | None") -> str:
    """Return the grounding score after a comma, or an empty text if there is no score."""
    return f", grounding {format_score(found.grounding_score)}" if found and found.grounding_score is not None else ""


def is_refused(iteration: "Iteration") -> bool:
    """Whether the answer cannot be accepted because its sources do not support it."""
    verdict = iteration.evaluation
    if verdict is None or verdict.requirements_met is not False:
        return False
    claims = verdict.grounding.ungrounded_claims if verdict.grounding else []
    return bool(claims) or (iteration.grounding is not None and iteration.grounding.met is False)


def page_lines(iteration: "Iteration") -> Iterator[Line]:
    """Yield the cited sources, the wrong citation markers and the unsupported sentences of one answer."""
    found = iteration.grounding
    if found is not None:
        cited = ", ".join(str(index + 1) for index in found.sources_used) or "none"
        there = "" if found.sources_provided is None else f" of {found.sources_provided}"
        yield f"→ cites sources: {cited}{there}{score_text(found)}", "dim"
        yield from _first([(_signed(NOT_MET, f"wrong citation marker: {issue.message}"), "") for issue in found.issues])
        yield from _first([(_signed(NOT_MET, _unsupported(each)), "") for each in found.unsupported])


def _unsupported(each: Any) -> str:
    numbers = ", ".join(each.missing_numbers)
    whys = {"uncited": "it cites no source", "unrelated": "the cited source does not mention it"}
    why = whys.get(each.reason, f"no source contains {numbers}")
    return f'not supported: "{output.one_line(each.text)}" ({why})'


def claim_lines(checked: "ClaimCheckResult | None") -> Iterator[Line]:
    """Yield the claims that an evaluator checked, each with its quote or its problem."""
    for claim in checked.claims if checked else ():
        yield _signed(MET if claim.supported else NOT_MET, _claim(claim)), ""


def _claim(claim: "Claim") -> str:
    words = f"{_LABELS[claim.label]}: {output.one_line(claim.claim)}"
    if claim.supported:
        return f'{words} - source {claim.source}: "{output.one_line(claim.quote, 200)}"'
    return f"{words} - {output.one_line(claim.problem)}"


def _signed(state: str, words: str) -> str:
    sign = f"{SIGNS[state][0]} " if has_signs(output.stdout()) else ""
    return f"  {sign}{output.one_line(words, 2000)}"


def _first(lines: Sequence[Line]) -> Iterator[Line]:
    yield from lines[:_SHOWN_MAX]
    if len(lines) > _SHOWN_MAX:
        yield f"  … and {len(lines) - _SHOWN_MAX} more", "dim"


def result_text(job: "Job") -> str:
    """Return the grounding of the final answer in words, or an empty text for a job without sources."""
    result = job.result or {}
    provided = result.get("sources_provided")
    if not provided:
        return ""
    parts = [f"{len(result['sources_used'])} of {provided} {'source' if provided == 1 else 'sources'} cited"]
    if result["grounding_score"] is not None:
        parts.insert(0, format_score(result["grounding_score"]))
    if result.get("confidence") is not None:
        parts.append(f"confidence {format_score(result['confidence'])}")
    return ", ".join(parts)


def print_sources(job: "Job") -> None:
    """Print the cited sources, the grounding score and the unsupported claims of the final answer on stderr."""
    grounding = result_text(job)
    if not grounding or job.result is None:
        return
    if used := [(index + 1, _title(job, index)) for index in job.result["sources_used"]]:
        output.say(write_endnotes(used))
    output.say(f"Grounding: {grounding}", "dim")
    claims = job.result.get("unsupported_claims", ())
    for words, style in _first([(f"Not supported: {output.one_line(each)}", "yellow") for each in claims]):
        output.say(words, style)


def cited_lines(job: "Job") -> Iterator[Line]:
    """Yield the sources that the final answer cites, each with the sentences that cite it."""
    quoted = _quoted(job)
    for index in (job.result or {}).get("sources_used", ()):
        yield f"[Source {index + 1}] {_title(job, index)}", ""
        for sentence in quoted.get(index, ())[:_QUOTED_MAX]:
            yield f'  "{output.one_line(sentence, 300)}"', "dim"
        if len(quoted.get(index, ())) > _QUOTED_MAX:
            yield f"  … and {len(quoted[index]) - _QUOTED_MAX} more", "dim"


def _title(job: "Job", index: int) -> str:
    """Return the title of a source, or an empty text if a continuation removed the source."""
    sources: Sequence[dict[str, Any]] = job.request["sources"]
    return output.one_line(title_of(sources[index]), 200) if index < len(sources) else ""


def _quoted(job: "Job") -> Mapping[int, Sequence[str]]:
    """Map the index of each source to the distinct sentences that cite it."""
    found: dict[int, dict[str, None]] = {}
    for citation in (job.result or {}).get("citations", ()):
        if citation["quoted_text"]:
            found.setdefault(citation["source_index"], {})[citation["quoted_text"]] = None
    return {index: list(sentences) for index, sentences in found.items()}
