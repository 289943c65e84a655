"""Read the citations of an answer with a number of sources."""

from dataclasses import dataclass

from redraft.domain.grounding.citation_markers import Style
from redraft.domain.grounding.citations import Cited, read_citations
from redraft.domain.grounding.scoring import ground, read_evidence


@dataclass(frozen=True)
class Chunk:
    title: str | None = None
    document_id: str | None = None
    chunk_id: str | None = None


def read(answer: str, sources: int, style: Style = "inline") -> Cited:
    return read_citations(answer, [Chunk()] * sources, style)


def numbers(answer: str, sources: int, style: Style = "inline") -> list[int]:
    return [citation.source_number for citation in read(answer, sources, style).citations]


def coverage(answer: str, sources: int, style: Style = "inline") -> tuple[int, int]:
    """Return the number of cited sentences and the number of all sentences."""
    found = ground(answer, read(answer, sources, style), read_evidence([]))
    return found.sentences_cited, found.sentences_total


def wrong(answer: str, sources: int) -> list[tuple[str, int, str]]:
    """Return code, number and text of each marker that is an issue."""
    issues = read(answer, sources).issues
    return [(issue.code, issue.number, answer[issue.start_pos : issue.end_pos]) for issue in issues]
