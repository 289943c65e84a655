"""Checks without a model how an answer uses its sources, and adds the findings to the result of the job."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from redraft.domain.evaluation.claims import ClaimCheck
from redraft.domain.grounding.citations import read_citations
from redraft.domain.grounding.scoring import OVERLAP_MIN, ground, read_evidence
from redraft.domain.grounding.support import SUPPORTED_SHARE_MIN, find_support, quoted, shortened
from redraft.domain.jobs.requests import AnyRequest, EvaluateAnswer, dump, sources_hash
from redraft.domain.structured.named_schemas import confidence_of, prose_of
from redraft.domain.text.content_words import read_content
from redraft.operations.request_views import schema_of, structure_of
from redraft.storage.jobs.history import IterationRecord

NOTHING: dict[str, Any] = {"citations": [], "sources_used": [], "grounding_score": None, "cited_text": None}
# Every sentence of an answer without citations is unsupported, so a long answer would be stored twice
_UNSUPPORTED_MAX = 200


def grounding_reader(request: AnyRequest) -> Callable[[str], dict[str, Any] | None]:
    """Read the sources once, and return a function that checks an answer to the request.

    The function returns the citations, the issues of citation markers, the grounding score and the unsupported
    statements. It returns None for a job without sources, and for an answer with a user's own schema, because such a
    schema does not say which fields are prose.
    """
    options = request.grounds
    structure = structure_of(request)
    if options is None or (structure is None and schema_of(request) is not None):
        return lambda _answer: None
    asked = [request.instruct, *(text for turn in request.conversation for text in turn)]
    evidence = read_evidence((f"{source.about}\n{source.content}" for source in request.sources), asked)
    count = len(request.sources)
    style = options.citation_style
    version = sources_hash([dump(source) for source in request.sources])
    # An answer that a client submits for evaluation was written without our instruction to cite
    must_cite = options.include_citations and not isinstance(request, EvaluateAnswer)

    def read(answer: str) -> dict[str, Any] | None:
        text = prose_of(structure, answer, count) if structure else answer
        if text is None:
            return None
        cited = read_citations(text, request.sources, style)
        found = ground(text, cited, evidence, style)
        support = find_support(found, cited.issues, sources=count, must_cite=must_cite, style=style)
        return {
            "citations": [asdict(citation) for citation in cited.citations],
            "issues": [asdict(issue) for issue in cited.issues],
            "sources_used": list(found.sources_used),
            "sources_provided": count,
            "sources_hash": version,
            "grounding_score": found.score,
            "stated": len(found.sentences),
            "unsupported": [asdict(each) for each in support.unsupported[:_UNSUPPORTED_MAX]],
            "cited_text": text if structure else None,
            "met": support.met,
            "sound": support.is_sound,
            "problems": list(support.problems),
        }

    return read


def meets_rule(request: AnyRequest, grounding: Mapping[str, Any] | None, check: ClaimCheck | None) -> bool:
    """Whether the grounding rule allows the acceptance of an answer.

    A claim check can support statements without a citation. It cannot excuse wrong citation markers, or numbers that
    no source has, because code has found these.
    """
    if request.grounds is None or not request.grounds.require_grounding:
        return True
    found = grounding or {}
    if check is None or not check.claims:
        return found.get("met", True)
    if not found.get("sound", True) or not all(claim.supported for claim in check.claims):
        return False
    return len(_unchecked(found, check)) <= (1 - SUPPORTED_SHARE_MIN) * found.get("stated", 0)


def problems_of(request: AnyRequest, grounding: Mapping[str, Any] | None, check: ClaimCheck | None) -> tuple[str, ...]:
    """The grounding problems for the feedback. Uncited claims are left out if a claim check names them."""
    if request.grounds is None or grounding is None:
        return ()
    if not request.grounds.require_grounding:
        unread = [each["message"] for each in grounding.get("issues", ()) if each["code"] == "unread_mark"]
        return tuple(shortened(unread, "more marks are not understood"))
    if check is None or not check.claims or not grounding.get("sound", True):
        return tuple(grounding.get("problems", ()))
    advice = "is among the claims that were checked. Cite the source that says so, or soften or delete the statement."
    return tuple(shortened([f"No part of {quoted(text)} {advice}" for text in _unchecked(grounding, check)], "more"))


def _unchecked(grounding: Mapping[str, Any], check: ClaimCheck) -> list[str]:
    """The statements without a supporting citation that the claim check of the evaluator does not cover."""
    claims = [read_content(claim.claim).stems for claim in check.claims]

    def is_covered(text: str) -> bool:
        sentence = read_content(text).stems
        return any(len(claim & sentence) >= OVERLAP_MIN * min(len(claim), len(sentence)) for claim in claims)

    uncited = [each["text"] for each in grounding.get("unsupported", ()) if each["reason"] != "number"]
    return [text for text in uncited if not is_covered(text)]


def checked_claims(check: ClaimCheck | None) -> dict[str, Any] | None:
    """Return a claim check in its stored and public form."""
    return check and {
        "grounded": check.grounded,
        "claims": [asdict(claim) for claim in check.claims],
        "ungrounded_claims": [claim.claim for claim in check.claims if not claim.supported],
        "confidence": check.confidence,
    }


def grounding_fields(request: AnyRequest, record: IterationRecord) -> dict[str, Any]:
    """The fields of a job's result that are about the sources of its answer."""
    grounding, verdict = record.grounding or NOTHING, record.evaluation
    structure = structure_of(request)
    provided = grounding.get("sources_provided", len(request.sources))
    own = confidence_of(structure, record.answer, provided) if structure else None
    return {
        **{name: grounding.get(name, nothing) for name, nothing in NOTHING.items()},
        "sources_provided": provided,
        "unsupported_claims": _unsupported_claims(record),
        "confidence": own if verdict is None or verdict.confidence is None else verdict.confidence,
    }


def _unsupported_claims(record: IterationRecord) -> list[str]:
    """The unsupported statements, in order: from the claim check if there is one, otherwise from `grounding`."""
    checked = record.evaluation.grounding if record.evaluation else None
    if checked and checked["claims"]:
        return checked["ungrounded_claims"]
    return [each["text"] for each in (record.grounding or {}).get("unsupported", ())]


def final_answer(request: AnyRequest, record: IterationRecord) -> str:
    """Return the answer. If `annotate_unverified` is set, append a list of its unsupported statements."""
    unsupported = _unsupported_claims(record)
    if not unsupported or request.grounds is None or not request.grounds.annotate_unverified:
        return record.answer
    lines = "\n".join(f"- {quoted(claim)}" for claim in unsupported)
    return f"{record.answer.rstrip()}\n\n---\n\nUnverified: no source given supports these statements.\n\n{lines}"
