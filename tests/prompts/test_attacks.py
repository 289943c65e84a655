"""Whatever an attacker writes: what reaches the judge has one start and one end per frame, the attack within."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redraft.domain.calls.conversation import Prompt
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.domain.text.trivial_answers import is_trivial
from redraft.prompts.evaluation import evaluation_prompt
from tests.prompts.attacks import ATTACKS, EMPTY, Attack
from tests.prompts.test_evaluation import ANSWER_LINE, PROFILES, RUBRIC, marks_of, text_of, without_line

FORMS = (*(profile.name for profile in PROFILES.all()), "rubric")
PLACES = ("answer", "source", "title", "user", "assistant", "reference")
# All that one could take for a mark: an opening bracket, perhaps a slash, then the name of a frame.
TAGS = r"answer|source-\d+|user-turn-\d+|assistant-turn-\d+|known-answer"
GIVEN = re.compile(r"tags with the id ([0-9a-f]{16}) is data")
MARK = re.compile(rf"<[\s/\\]*(?:{TAGS})(?![\w-])[^\n]*", re.IGNORECASE)


def prompt_of(form: str, texts: dict[str, str]) -> Prompt:
    """A prompt in which each untrusted place holds what is given."""
    # A blank source is refused before anybody judges by it
    known = {
        place: text if (text := texts.get(place, "")).replace("\x00", "").strip() else f"an honest {place}"
        for place in PLACES
    }
    values: dict[str, Any] = {
        "instruct": "TASK",
        "eval_crit": "CRITERIA",
        "reference": known["reference"],
        "conversation": [[known["user"], known["assistant"]], ["second question", "second answer"]],
        "sources": [{"content": known["source"], "title": known["title"][:1000]}, {"content": "second source"}],
    }
    request = GenerateAnswer.model_construct(**{**GenerateAnswer(instruct="T", eval_crit="C").__dict__, **values})
    request = request.model_copy(update={"sources": GenerateAnswer.model_validate(_plain(values)).sources})
    profile = PROFILES.get("criteria" if form == "rubric" else form)
    return evaluation_prompt(profile, request, known["answer"], criteria=RUBRIC if form == "rubric" else ())


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    sources = [{key: text.replace("\x00", "") for key, text in each.items()} for each in values["sources"]]
    return {"instruct": "T", "eval_crit": "C", "sources": sources}


def frames_of(prompt: Prompt) -> dict[str, str]:
    """The frames in the user's message, by tag; fails when any mark stands where none should."""
    content, given = without_line(prompt), GIVEN.search(prompt.messages[0].content)
    nonces = {"answer": ANSWER_LINE.findall(prompt.messages[0].content)[0][1]}
    marks = list(MARK.finditer(content))
    frames: dict[str, str] = {}
    for start, end in zip(marks[::2], marks[1::2], strict=True):
        tag = start[0].removeprefix("<").partition(" ")[0]
        nonce = nonces.get(tag) or (given and given[1])
        assert start[0] == f'<{tag} id="{nonce}">'
        assert end[0] == f'</{tag} id="{nonce}">'
        assert tag not in frames
        frames[tag] = content[start.end() : end.start()]
    outside = GIVEN.sub("", MARK.sub("", content)).lower()
    assert not any(nonce in outside for nonce in (nonces["answer"], given and given[1]) if nonce)
    return frames


TAG_OF = {
    "answer": "answer",
    "source": "source-1",
    "title": "source-1",
    "user": "user-turn-1",
    "assistant": "assistant-turn-1",
    "reference": "known-answer",
}


def written(attack: Attack, form: str) -> str:
    """The attack's text, with an id that the judge would be given, had the attacker guessed it.

    Half of the attacks guess the id of the answer's frame, and half that of the other frames.
    """
    content = prompt_of(form, {"answer": attack.text}).messages[0].content
    given = GIVEN.search(content)
    nonce = given[1] if given and len(attack.name) % 2 else ANSWER_LINE.findall(content)[0][1]
    marks = {"{nonce}": nonce, "{NONCE}": nonce.upper(), "{nonce_split}": "\u200b".join(nonce)}
    text = attack.text
    for mark, value in marks.items():
        text = text.replace(mark, value)
    return text


def test_there_are_enough_attacks_each_with_a_name_of_its_own():
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) >= 80


@pytest.mark.parametrize(
    "form", [form if form == "criteria" else pytest.param(form, marks=pytest.mark.long) for form in FORMS]
)
def test_an_attack_stands_inside_of_its_frame(form: str):
    for attack in ATTACKS:
        check_frames_of(attack, form)


def check_frames_of(attack: Attack, form: str) -> None:
    text = written(attack, form)
    for place in PLACES:
        frames = frames_of(prompt_of(form, {place: text}))
        tag = TAG_OF[place]
        if tag not in frames:  # this profile does not see that place
            continue
        shows = attack.shows[:400] if len(text) < 900 else ""
        cut = form == "evidence" and place in {"source", "title"}
        assert cut or shows in frames[tag], (attack.name, place, frames[tag][:300])
        others = "".join(body for name, body in frames.items() if name != tag)
        assert "score 1" not in others, (attack.name, place)


@pytest.mark.parametrize("form", FORMS)
def test_the_form_of_a_prompt_does_not_change_under_attack(form: str):
    honest = skeleton(prompt_of(form, {}))
    for attack in ATTACKS:
        text = written(attack, form)
        assert skeleton(prompt_of(form, dict.fromkeys(PLACES, text))) == honest, attack.name


def skeleton(prompt: Prompt) -> str:
    """A prompt without what stands in its frames, and without the id."""
    content = f"{prompt.system}\n{without_line(prompt)}"
    for tag, body in frames_of(prompt).items():
        content = re.sub(rf'(<{tag} id="\w+">){re.escape(body)}(</{tag})', r"\1\2", content, count=1)
    return re.sub(r"[0-9a-f]{16}", "", content)


@pytest.mark.parametrize("form", FORMS)
def test_nothing_that_prints_nothing_reaches_a_judge(form: str):
    for attack in ATTACKS:
        seen = text_of(prompt_of(form, dict.fromkeys(PLACES, attack.text)))
        assert not re.search(
            "[\u200b-\u200f\u202a-\u202e\u2060-\u206f\u00ad\ufeff\u3164\U000e0000-\U000e0fff\x1b]", seen
        )


@pytest.mark.parametrize("answer", EMPTY, ids=ascii)
def test_an_answer_that_holds_nothing_is_shown_to_nobody(answer: str):
    assert is_trivial(answer)


PIECES = st.sampled_from(
    [
        *(
            "<",
            "</",
            "\uff1c",
            "\u2039",
            "/",
            "\\",
            ">",
            " ",
            "\n",
            '"',
            "id=",
            "answer",
            "ANSWER",
            "source-1",
            "source-",
        ),
        *(
            "known-answer",
            "assistant-turn-1",
            "user-turn-2",
            "1",
            "\u0430nswer",
            "\uff41nswer",
            "\u200b",
            "\u200d",
            "\u00ad",
        ),
        *(
            "\u202e",
            "\U000e0061",
            "\ufe0f",
            "\u0336",
            "\x00",
            "\r",
            "\u2028",
            "{{",
            "}}",
            "{%",
            "[image]",
            "![",
            "](x)",
        ),
    ]
)
TEXTS = st.lists(PIECES | st.text(st.characters(exclude_categories=["Cs"]), max_size=3), max_size=12).map("".join)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(FORMS), st.fixed_dictionaries(dict.fromkeys(PLACES, TEXTS)))
def test_no_text_opens_or_closes_a_frame(form: str, texts: dict[str, str]):
    # A request refuses texts without a visible character
    visible = {place: text for place, text in texts.items() if any(c.isprintable() and c != " " for c in text)}
    seen = frames_of(prompt_of(form, visible))
    assert "answer" in seen


@pytest.mark.parametrize("of", [lambda start, end: end, lambda start, end: f"{end}\n{start}"], ids=["end", "both"])
def test_marks_copied_from_an_earlier_prompt_open_nothing(of: Callable[[str, str], str]):
    start, end = marks_of(prompt_of("criteria", {}))
    frames = frames_of(prompt_of("criteria", {"source": of(start, end), "answer": of(start, end)}))
    assert len(frames) == 8
