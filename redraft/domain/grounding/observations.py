"""Observations: which of a retriever's ranked sources accepted answers cite.

An observation is one accepted answer with the retriever's ranking and the cited sources.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from redraft.domain.statistics.estimates import Estimate, share

OBSERVATIONS_NEEDED = 30
"""With fewer, a share's interval is too wide to conclude anything from."""


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
    """One source of an accepted answer, without its content.

    Attributes:
        source_number: from 1, in the job's order.
        relevance_score: from the retriever.
        rank: from 1, the highest score first; None without a score.
        cited: whether the answer cites it; None where citations are not read.
    """

    source_number: int
    chunk_id: str | None
    document_id: str | None
    title: str | None
    relevance_score: float | None
    rank: int | None
    cited: bool | None


def ranks_of(scores: Sequence[float | None]) -> list[int | None]:
    """Rank the scores: 1 for the highest. Equal scores keep their order; None has no rank."""
    scored = [(score, index) for index, score in enumerate(scores) if score is not None]
    found: list[int | None] = [None] * len(scores)
    for rank, (_, index) in enumerate(sorted(scored, key=lambda each: -each[0]), 1):
        found[index] = rank
    return found


def observe_sources(sources: Sequence[Chunk], used: Collection[int] | None) -> list[ObservedSource]:
    """Build the sources of an observation.

    Args:
        sources: in the job's order.
        used: the indices of the cited ones, from 0; None where citations are not read.
    """
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
    """The share of answers that cite the source of one rank.

    Attributes:
        offered: the number of accepted answers with a source of this rank.
        share: cited of offered, with its Wilson interval.
    """

    rank: int
    offered: int
    cited: int
    share: Estimate


@dataclass(frozen=True, slots=True)
class MeanScores:
    """The mean relevance scores of cited and uncited sources; None if there are none."""

    cited: float | None
    uncited: float | None


@dataclass(frozen=True, slots=True)
class RankReport:
    """Shares of citations by rank.

    Attributes:
        observations: the number of accepted answers behind the shares.
        left_out: the number of answers whose citations are not read.
        observations_needed: with fewer observations the shares are too uncertain.
    """

    observations: int
    left_out: int
    observations_needed: int
    mean_relevance_score: MeanScores
    ranks: tuple[RankShare, ...]


@dataclass(slots=True)
class _Mean:
    n: int = 0
    value: float = 0.0

    def add(self, number: float) -> None:
        # Divides before it adds, because the sum of scores may overflow.
        self.n += 1
        self.value += number / self.n - self.value / self.n

    @property
    def known(self) -> float | None:
        return self.value if self.n else None


@dataclass(slots=True)
class _Tally:
    offered: dict[int, int] = field(default_factory=dict[int, int])
    cited: dict[int, int] = field(default_factory=dict[int, int])
    means: dict[bool, _Mean] = field(default_factory=lambda: {True: _Mean(), False: _Mean()})

    def add(self, source: ObservedSource) -> None:
        if source.rank is None or source.relevance_score is None or source.cited is None:
            return
        self.offered[source.rank] = self.offered.get(source.rank, 0) + 1
        self.cited[source.rank] = self.cited.get(source.rank, 0) + source.cited
        self.means[source.cited].add(source.relevance_score)

    def shares(self) -> tuple[RankShare, ...]:
        return tuple(
            RankShare(rank, offered, self.cited[rank], estimate)
            for rank, offered in sorted(self.offered.items())
            if (estimate := share(self.cited[rank], offered)) is not None
        )


def report_ranks(observations: Iterable[Sequence[ObservedSource]]) -> RankReport:
    """Count the citations by rank. Reads the observations as a stream, so that their number does not matter."""
    tally, read, left_out = _Tally(), 0, 0
    for sources in observations:
        if any(source.cited is None for source in sources):
            left_out += 1
            continue
        read += 1
        for source in sources:
            tally.add(source)
    means = MeanScores(tally.means[True].known, tally.means[False].known)
    return RankReport(read, left_out, OBSERVATIONS_NEEDED, means, tally.shares())
