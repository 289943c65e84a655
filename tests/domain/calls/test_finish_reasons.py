"""Finish reasons that vendors document or send, and unknown ones."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.calls.finish_reasons import Finish, classify_finish, is_absent

KNOWN: dict[Finish, str] = {
    Finish.COMPLETE: """
        stop end_turn stop_sequence STOP eos eos_token COMPLETE STOP_SEQUENCE completed FINISH finished
        STOP_CRITERIA_MET endoftext normal done end_of_text REASON_STOP FINISH_REASON_STOP stop-sequence EndTurn eot
        <|im_end|> <|eot_id|> </s> EOS_TOKEN_FOUND stop_on_eos completion
        matched_stop hit_stop_token stop_str natural end_of_message eog
        """,
    Finish.CUT: """
        length max_tokens MAX_TOKENS model_length MODEL_LENGTH max_output_tokens maxTokens LENGTH limit token_limit
        max_new_tokens maximum_tokens truncated incomplete REASON_MAX_LEN output_limit
        ALTERNATIVE_STATUS_TRUNCATED_FINAL max_completion_tokens length:MAX_TOKENS max-length
        too_long num_predict answer_too_large length_limit_reached thinking_budget_exceeded stop_length
        """,
    Finish.CONTEXT_FULL: "model_context_window_exceeded ERROR_LIMIT context context_length_exceeded REASON_MAX_CONTEXT"
    " ctx_full n_ctx kv_cache_full prompt_too_long",
    Finish.FILTERED: """
        content_filter content_filtered SAFETY RECITATION LANGUAGE BLOCKLIST PROHIBITED_CONTENT SPII ERROR_TOXIC
        guardrail_intervened content_filter:RECITATION sensitive blacklist IMAGE_SAFETY FINISH_REASON_SAFETY
        MODEL_ARMOR ContentFilter safety stop:SAFETY ALTERNATIVE_STATUS_CONTENT_FILTER moderation_blocked
        content_risk data_inspection_failed inappropriate_content nsfw jailbreak hate PII security_audit_fail
        """,
    Finish.REFUSED: "refusal REFUSAL refused declined",
    Finish.TOOL_CALL: "tool_calls function_call tool_use TOOL_CALL toolUse",
    Finish.FAILED: """
        insufficient_system_resource abort error ERROR USER_CANCEL cancelled repetition load unload OTHER
        MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL TIMEOUT time_limit network_error malformed_model_output
        not_finished error_timeout interrupted TOO_MANY_TOOL_CALLS preempted overloaded pause_turn in_progress
        unfinished terminated halted expired quota_exceeded worker_crashed out_of_memory OOM user_stop busy no_capacity
        throttled rejected connection_closed max_time not_stop never_finished
        """,
    Finish.UNKNOWN: "xyz 42 vendor_special FINISH_REASON_UNSPECIFIED unknown",
}


def test_each_vendors_word_has_its_class():
    wanted = {reason: finish for finish, reasons in KNOWN.items() for reason in reasons.split()}
    assert {reason: classify_finish(reason) for reason in wanted} == wanted


@given(
    st.sampled_from([reason for finish, reasons in KNOWN.items() if finish != "unknown" for reason in reasons.split()]),
    st.sampled_from([str.lower, str.upper, str.title]),
    st.sampled_from(["", "_", "-", " ", "."]),
)
def test_case_and_separators_do_not_matter(reason: str, spell: Callable[[str], str], separator: str):
    assert classify_finish(re.sub(r"[_\- .]", separator, spell(reason))) is classify_finish(reason)


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=9, max_size=20))
def test_an_unseen_reason_is_never_complete(reason: str):
    assert classify_finish(reason) is not Finish.COMPLETE


@given(st.sampled_from(["stop", "end_turn", "complete"]), st.sampled_from(["SAFETY", "length", "error", "vendor_word"]))
def test_a_compound_reason_is_not_better_than_its_worse_part(first: str, second: str):
    assert classify_finish(f"{first}: {second}") is classify_finish(second)


@pytest.mark.parametrize("reason", ["", " ", "null", "None", "undefined"])
def test_a_word_for_nothing_is_an_absent_reason(reason: str):
    assert is_absent(reason)
    assert classify_finish(reason) is Finish.UNKNOWN


def test_a_missing_reason_is_unknown():
    assert classify_finish(None) is Finish.UNKNOWN
