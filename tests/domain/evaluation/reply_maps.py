"""The fields of the evaluator replies that the tests of this folder read."""

from redraft.domain.evaluation.verdict_parsing import ReplyMap

CRITERIA = ReplyMap(
    score="score",
    reasoning="evaluation_reasoning",
    suggestions="improvement_suggestions",
    meets_criteria="meets_criteria",
    fields=frozenset({"score", "evaluation_reasoning", "improvement_suggestions", "meets_criteria"}),
)
