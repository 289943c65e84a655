import pytest

from redraft.providers.shared.failures import Vendor
from redraft.providers.shared.replies import finish_failure


@pytest.mark.parametrize("text", ["Half of an ans", ""])
@pytest.mark.parametrize(("setting", "is_local"), [("OPENAI_BASE_URL", False), ("REDRAFT_LOCAL_MODEL", True)])
def test_a_cut_reply_names_only_settings_that_raise_its_limit(text: str, setting: str, *, is_local: bool) -> None:
    found = finish_failure(Vendor("it", "KEY", setting), "length", text)
    assert found is not None
    code, text_of = found
    assert code == "output_truncated"
    assert "sampling.max_output_tokens (generator)" in text_of
    assert ("REDRAFT_EVALUATOR_MAX_OUTPUT_TOKENS" in text_of, "another evaluator model" in text_of) == (
        not is_local,
        is_local,
    )
