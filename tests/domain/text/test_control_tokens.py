"""Control tokens of chat templates lose their first bracket; all else stays."""

import pytest

from redraft.domain.text.control_tokens import neutralise

TOKENS = [
    *("<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|start_header_id|>", "<|start|>", "<|channel|>", "<|message|>"),
    *("<|END_RESPONSE|>", "<|endoftext|>", "<|tool_call_begin|>", "<|/think|>", "<|system|>"),
    *("<\uff5cUser\uff5c>", "<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<|turn>", "<turn|>", "<channel|>"),
    *("<start_of_turn>", "<end_of_turn>", "<end_of_utterance>", "<bos>", "<s>", "</s>", "<eos>", "<unk>"),
    *("<<SYS>>", "<</SYS>>", "<extra_id_1>", "<unused99>", "<reserved_106>", "<SPECIAL_12>", "<tool_call>"),
    *(
        "[INST]",
        "[/INST]",
        "[ INST ]",
        "[SYSTEM_PROMPT]",
        "[/SYSTEM_PROMPT]",
        "[TOOL_CALLS]",
        "[gMASK]",
        "]~b]",
        "[e~[",
    ),
]


@pytest.mark.parametrize("token", TOKENS)
def test_a_control_token_is_neutralised(token: str):
    shown = neutralise(f"a{token}b")
    assert token not in shown
    assert shown.startswith(("a&lt;", "a&#91;", "a&#93;"))
    assert neutralise(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "<p>a</p> <br/> <user>x</user> <system>",
        "a < b | c > d, a <- b, x |> f",
        "f <| x",
        "List<String> and <T>",
        "[1] [INSTALL] [Source 2] a[i]",
        "<think>x</think>",
        "| a | b |",
    ],
)
def test_other_text_stays(text: str):
    assert neutralise(text) == text
