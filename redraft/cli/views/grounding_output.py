"""Citations and claims of an answer as lines: during the evaluation, on the page of a job, and below the answer."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from redraft.cli import output
from redraft.cli.source_files import title_of
from redraft.cli.views.verdicts import MET, NOT_MET, SIGNS, Line, has_signs
from redraft.domain.grounding.reference_lists import write_endnotes

if TYPE_CHECKING:
    from redraft.operations.jobs.iterations import CheckedClaim, ClaimCheckResult, GroundingResult, Iteration
    from redraft.operations.jobs.resources import Job

_SHOWN_MAX = 10
_QUOTED_MAX = 3
_LABELS = {"supported": "supported", "contradicted": "contradicted", "not_found": "not supported"}


def score_text(found: "GroundingResult | None") -> str:
    """The grounding score behind a comma; nothing where there is none."""
    return f", grounding {found.grounding_score:.2f}" if found and found.grounding_score is not None else ""


def is_refused(iteration: "Iteration") -> bool:
    """Whether the answer may not be accepted for what it makes of its sources."""
    verdict = iteration.evaluation
    if verdict is None or verdict.requirements_met is not False:
        return False
    claims = verdict.grounding.ungrounded_claims if verdict.grounding else []
    return bool(claims) or (iteration.grounding is not None and iteration.grounding.met is False)


def page_lines(iteration: "Iteration") -> Iterator[Line]:
    """What was found of the sources in one answer: marks, what they point at, and what nothing supports."""
    found = iteration.grounding
    if found is not None:
        cited = ", ".join(str(index + 1) for index in found.sources_used) or "none"
        there = "" if found.sources_provided is None else f" of {found.sources_provided}"
        yield f"→ cites sources: {cited}{there}{score_text(found)}", "dim"
        yield from _first([(_signed(NOT_MET, f"wrong mark: {issue.message}"), "") for issue in found.issues])
        yield from _first([(_signed(NOT_MET, _unsupported(each)), "") for each in found.unsupported])


def _unsupported(each: Any) -> str:
    numbers = ", ".join(each.missing_numbers)
    whys = {"uncited": "no source is given for it", "unrelated": "the cited source says nothing of it"}
    why = whys.get(each.reason, f"no source holds {numbers}")
    return f'not supported: "{output.one_line(each.text)}" ({why})'


def claim_lines(checked: "ClaimCheckResult | None") -> Iterator[Line]:
    """Each claim that an evaluator looked for in the sources, and whether its quote holds."""
    for claim in checked.claims if checked else ():
        yield _signed(MET if claim.supported else NOT_MET, _claim(claim)), ""


def _claim(claim: "CheckedClaim") -> str:
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
    """The grounding of the final answer in a few words; empty for a job without sources."""
    result = job.result or {}
    provided = result.get("sources_provided")
    if not provided:
        return ""
    parts = [f"{len(result['sources_used'])} of {provided} {'source' if provided == 1 else 'sources'} cited"]
    if result["grounding_score"] is not None:
        parts.insert(0, f"{result['grounding_score']:.2f}")
    if result.get("confidence") is not None:
        parts.append(f"confidence {result['confidence']:.2f}")
    return ", ".join(parts)


def print_sources(job: "Job") -> None:
    """Beneath the answer, on stderr: which sources it cites, how well it rests on them, and what does not."""
    told = result_text(job)
    if not told or job.result is None:
        return
    if used := [(index + 1, _title(job, index)) for index in job.result["sources_used"]]:
        output.say(write_endnotes(used))
    output.say(f"Grounding: {told}", "dim")
    claims = job.result.get("unsupported_claims", ())
    for words, style in _first([(f"Not supported: {output.one_line(each)}", "yellow") for each in claims]):
        output.say(words, style)


def cited_lines(job: "Job") -> Iterator[Line]:
    """The sources that the final answer cites, each with the sentences that do."""
    quoted = _quoted(job)
    for index in (job.result or {}).get("sources_used", ()):
        yield f"[Source {index + 1}] {_title(job, index)}", ""
        for sentence in quoted.get(index, ())[:_QUOTED_MAX]:
            yield f'  "{output.one_line(sentence, 300)}"', "dim"
        if len(quoted.get(index, ())) > _QUOTED_MAX:
            yield f"  … and {len(quoted[index]) - _QUOTED_MAX} more", "dim"


def _title(job: "Job", index: int) -> str:
    """What to call a source; nothing for one that a continuation has taken away."""
    sources: Sequence[dict[str, Any]] = job.request["sources"]
    return output.one_line(title_of(sources[index]), 200) if index < len(sources) else ""


def _quoted(job: "Job") -> Mapping[int, Sequence[str]]:
    """By a source's index, the different sentences that cite it."""
    found: dict[int, dict[str, None]] = {}
    for citation in (job.result or {}).get("citations", ()):
        if citation["quoted_text"]:
            found.setdefault(citation["source_index"], {})[citation["quoted_text"]] = None
    return {index: list(sentences) for index, sentences in found.items()}
