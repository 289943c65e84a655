"""Ranks of sources, and the report of citations by rank."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.grounding.observations import ObservedSource, observe_sources, ranks_of, report_ranks
from redraft.domain.jobs.requests import Source

scores = st.lists(st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)), max_size=30)


def source(score: float | None = None, **fields: str) -> Source:
    return Source(content="Text.", relevance_score=score, **fields)


def observed(*sources: tuple[float | None, bool | None]) -> list[ObservedSource]:
    ranks = ranks_of([score for score, _ in sources])
    return [
        ObservedSource(number, None, None, None, score, rank, cited)
        for number, ((score, cited), rank) in enumerate(zip(sources, ranks, strict=True), 1)
    ]


@given(scores)
def test_ranks_count_from_one_down_the_scores_and_then_in_order(given_scores: list[float | None]):
    ranks = ranks_of(given_scores)
    assert [rank is None for rank in ranks] == [score is None for score in given_scores]
    ranked = sorted((rank, -(score or 0.0), index) for index, (rank, score) in enumerate(_scored(given_scores, ranks)))
    assert [rank for rank, *_ in ranked] == list(range(1, len(ranked) + 1))
    assert [each[1:] for each in ranked] == sorted(each[1:] for each in ranked)


def _scored(given_scores: Sequence[float | None], ranks: Sequence[int | None]) -> list[tuple[int, float]]:
    return [(rank, score) for rank, score in zip(ranks, given_scores, strict=True) if rank and score is not None]


def test_equal_scores_are_ranked_in_order_and_those_without_are_not():
    assert ranks_of([0.5, None, 0.9, 0.5, -1.0]) == [2, None, 1, 3, 4]
    assert ranks_of([]) == []


def test_a_source_is_kept_without_its_content():
    given_sources = [source(0.2, chunk_id="c1", document_id="d1", title="T"), source(), source(0.8)]
    first, second, third = observe_sources(given_sources, [0, 1])
    assert first == ObservedSource(1, "c1", "d1", "T", 0.2, 2, cited=True)
    assert second == ObservedSource(2, None, None, None, None, None, cited=True)
    assert (third.rank, third.cited) == (1, False)
    assert {each.cited for each in observe_sources(given_sources, None)} == {None}


def test_the_report_has_counts_per_rank_and_mean_scores():
    found = report_ranks(
        [
            observed((0.9, True), (0.5, False)),
            observed((0.2, False), (0.8, True), (None, True)),
            observed((0.7, False)),
        ]
    )
    assert [(each.rank, each.offered, each.cited) for each in found.ranks] == [(1, 3, 2), (2, 2, 0)]
    first = found.ranks[0].share
    assert first.value == 2 / 3
    assert 0.2 < first.low < first.value < first.high < 0.95
    assert (found.observations, found.left_out) == (3, 0)
    means = found.mean_relevance_score
    assert (round(means.cited or 0, 9), round(means.uncited or 0, 9)) == (0.85, round(1.4 / 3, 9))


def test_answers_whose_citations_are_not_read_count_for_no_rank():
    found = report_ranks([observed((0.9, None), (0.5, None)), observed((0.4, True))])
    assert (found.observations, found.left_out) == (1, 1)
    assert [(each.offered, each.cited) for each in found.ranks] == [(1, 1)]
    assert found.mean_relevance_score.uncited is None


def test_a_report_without_observations_has_no_figures():
    found = report_ranks([])
    assert (found.observations, found.left_out, found.ranks) == (0, 0, ())
    assert (found.mean_relevance_score.cited, found.mean_relevance_score.uncited) == (None, None)


def test_the_largest_scores_have_a_mean():
    largest = 1.7e308
    found = report_ranks([observed((largest, True)), observed((largest, True)), observed((-largest, False))])
    assert found.mean_relevance_score.cited == largest
    assert found.mean_relevance_score.uncited == -largest
