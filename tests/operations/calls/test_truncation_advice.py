import pytest

from redraft.domain.calls.conversation import Chat, LimitOrigin
from redraft.domain.calls.model_names import parse_model
from redraft.operations.calls.call_outcomes import truncation_advice


@pytest.mark.parametrize(
    ("model", "setting", "advice"),
    [
        ("openai:writer", None, "Raise sampling.max_output_tokens."),
        ("local:smollm2-135m", None, "Raise sampling.max_output_tokens."),
        ("openai:judge", "REDRAFT_EVALUATOR_MAX_OUTPUT_TOKENS", "Raise REDRAFT_EVALUATOR_MAX_OUTPUT_TOKENS."),
        ("local:smollm2-135m", "REDRAFT_EVALUATOR_MAX_OUTPUT_TOKENS", "Choose another model."),
    ],
)
def test_a_truncated_reply_names_only_the_setting_that_raises_its_limit(model: str, setting: str | None, advice: str):
    origin = LimitOrigin(setting) if setting else None
    assert truncation_advice(Chat(parse_model(model), "", (), limit_origin=origin)) == advice
