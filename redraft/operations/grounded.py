"""What an answer makes of its sources, found by code as soon as it is written, and kept beside it."""

from dataclasses import asdict
from typing import Any

from redraft.domain.citations import read_citations
from redraft.domain.grounding import ground, read_evidence
from redraft.domain.requests import AnyRequest
from redraft.operations.terms import schema_of

NOTHING: dict[str, Any] = {"citations": [], "sources_used": [], "grounding_score": None}


def grounding_of(request: AnyRequest, answer: str) -> dict[str, Any] | None:
    """Citations, what is wrong with marks, and the score; None for a job without sources.

    Marks in a structured answer are none: its schema says where sources are named.
    """
    if not request.sources or schema_of(request) is not None:
        return None
    cited = read_citations(answer, request.sources)
    found = ground(answer, cited, read_evidence(source.content for source in request.sources))
    return {
        "citations": [asdict(citation) for citation in cited.citations],
        "issues": [asdict(issue) for issue in cited.issues],
        "sources_used": list(found.sources_used),
        "grounding_score": found.score,
    }
