"""Observations: the ranked sources of accepted answers, each with a flag that says whether the answer cites it."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import Field

from redraft.domain.statistics.estimates import Estimate, share

# Below this number of observations, the confidence interval of a proportion is too wide for a conclusion
OBSERVATIONS_NEEDED = 30


class Chunk(Protocol):
    """The fields of a source that observations need."""

    @property
    def chunk_id(self) -> str | None: ...
    @property
    def document_id(self) -> str | None: ...
    @property
    def title(self) -> str | None: ...
    @property
    def relevance_score(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class ObservedSource:
    """One source of an accepted answer, without its content."""

    source_number: int  # The number in the job, from 1
    chunk_id: str | None
    document_id: str | None
    title: str | None
    relevance_score: float | None  # The score that the retriever gave
    rank: int | None  # From 1, for the highest score; None without a score
    cited: bool | None  # Whether the answer cites the source; None for a structured answer


def ranks_of(scores: Sequence[float | None]) -> list[int | None]:
    """Rank the scores: 1 for the highest. Equal scores keep their order. A score of None gets the rank None."""
    scored = [(-score, index) for index, score in enumerate(scores) if score is not None]
    found: list[int | None] = [None] * len(scores)
    for rank, (_, index) in enumerate(sorted(scored), 1):
        found[index] = rank
    return found


def observe_sources(sources: Sequence[Chunk], used: Collection[int] | None) -> list[ObservedSource]:
    """Build the sources of an observation. `used`: the indices of the cited sources; None for a structured answer."""
    ranks = ranks_of([source.relevance_score for source in sources])
    return [
        ObservedSource(
            source_number=index + 1,
            chunk_id=source.chunk_id,
            document_id=source.document_id,
            title=source.title,
            relevance_score=source.relevance_score,
            rank=rank,
            cited=None if used is None else index in used,
        )
        for index, (source, rank) in enumerate(zip(sources, ranks, strict=True))
    ]


@dataclass(frozen=True, slots=True)
class RankShare:
    """The share of answers that cite the source of this rank, among the answers with a source of this rank."""

    rank: int
    offered: int
    cited: int
    share: Estimate


@dataclass(frozen=True, slots=True)
class MeanScores:
    """The mean relevance scores of cited and of uncited sources. A mean is None if there are no such sources."""

    cited: float | None
    uncited: float | None


@dataclass(frozen=True, slots=True)
class RankReport:
    """How often each rank is cited. Rank 1 is the source with the highest relevance score."""

    observations: Annotated[int, Field(description="The number of accepted answers that are counted.")]
    left_out: Annotated[int, Field(description="The number of structured answers, which have no citations.")]
    observations_needed: Annotated[int, Field(description="Fewer observations allow no conclusion.")]
    mean_relevance_score: MeanScores
    ranks: tuple[RankShare, ...]


def report_ranks(observations: Iterable[Sequence[ObservedSource]]) -> RankReport:
    """Count the citations by rank. Memory does not grow with the number of observations."""
    counts: Counter[tuple[int, bool]] = Counter()
    sizes: Counter[bool] = Counter()
    means: dict[bool, float] = {}
    read = left_out = 0
    for sources in observations:
        if any(source.cited is None for source in sources):
            left_out += 1
            continue
        read += 1
        for source in sources:
            cited, score = source.cited is True, source.relevance_score
            if source.rank is not None and score is not None:
                counts[source.rank, cited] += 1
                sizes[cited] += 1
                mean = means.get(cited, 0.0)
                # A sum of scores may overflow, so each score is divided before it is added.
                means[cited] = mean + (score / sizes[cited] - mean / sizes[cited])
    shares: list[RankShare] = []
    for rank in sorted({rank for rank, _ in counts}):
        cited, offered = counts[rank, True], counts[rank, True] + counts[rank, False]
        if estimate := share(cited, offered):
            shares.append(RankShare(rank, offered, cited, estimate))
    return RankReport(read, left_out, OBSERVATIONS_NEEDED, MeanScores(means.get(True), means.get(False)), tuple(shares))
