"""Remove the thinking text of models from answers, by one table of all spellings of opening and closing tags.

`redraft.domain.evaluation.json_spans` uses the same table in its search for a verdict.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from redraft.caching import lazy_pattern

_NAMES = (
    r"(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|cot)(?:[_-](?:process|content|steps?|trace))?"
    r"|analysis|scratchpad|monologue|antthinking|思考"
)
_PREFIX = r"(?!end_|start_|begin_)(?:\w{1,20}[:_-]){0,2}"
_WORD = "think(?:ing)?|thoughts?|reasoning"
_TYPED = r"[^<>]{0,200}?\btype\s*=\s*[\"']?reasoning\b[^<>]{0,200}>"
_SUMMARY = (
    rf"<summary[^<>]{{0,50}}>[^\w<>]{{0,9}}(?:my )?(?:{_WORD}|chain of thought)"
    r"(?: process| for [^<>()]{1,30})?[^\w<>()]{0,9}(?:\([^<>()]{0,40}\)\s*)?</summary"
)
_LINE_START = r"(?<![^\n])[ \t]*"
_HEADING = rf"{_LINE_START}(?:\#{{1,6}}[ \t]*|\*\*)"
_HEADING_END = r"[ \t]*+:?(?:\*\*)?[ \t]*+:?[ \t]*+\n"
_OF_THINKING = "(?:my )?(?:thinking|thoughts|(?:thinking|thought|reasoning) process|chain of thought)"
_OF_AN_ANSWER = "(?:answer|response|verdict|evaluation|output|reply|solution|result)"
_HARMONY_FINAL = (
    r"(?:<\|start\|>\s*assistant\s*)?<\|channel\|>\s*final\b[^<>]{0,60}(?:<\|constrain\|>[^<>]{0,40})?<\|message\|>"
)
_ANSWER_BEGINS = (
    rf"{_HARMONY_FINAL}|<\|START_(?:RESPONSE|TEXT)\|>|<\|begin_of_solution\|>"
    r"|(?:<\|begin\|>\s*assistant\s*)?<\|content\|>|\[BEGIN FINAL RESPONSE\]"
)

# One spelling per row: the patterns of opening and closing tag. Two tags match if their named groups have the same name
# and the same text.
_SPELLINGS = (
    (
        rf"<[|\uff5c]?[ ]?{_PREFIX}(?P<tag>{_NAMES})\b[^<>]{{0,99}}(?<!/)>",
        rf"<[|\uff5c]?[ ]?\\?/[ ]?{_PREFIX}(?P<tag>{_NAMES})\b[^<>]{{0,40}}>",
    ),
    (
        rf"<[|\uff5c]?(?:begin|start)[_\u2581](?:of[_\u2581])?(?P<block>{_WORD})[|\uff5c]?>",
        rf"<[|\uff5c]?end[_\u2581](?:of[_\u2581])?(?P<block>{_WORD})[|\uff5c]?>",
    ),
    (rf"[\[◁](?P<mark>{_WORD})[\]▷]", rf"[\[◁]/(?P<mark>{_WORD})[\]▷]"),
    (
        rf"<[|\uff5c]?(?P<edge>{_WORD})_(?:start|begin)[|\uff5c]?>",
        rf"<[|\uff5c]?(?P<edge>{_WORD})_(?:end|stop)[|\uff5c]?>",
    ),
    (rf"\[start (?P<label>{_WORD})\]", rf"\[end (?P<label>{_WORD})\]"),
    (r"(?P<control><(?:ctrl|unused))94>(?:thought)?", r"(?P<control><(?:ctrl|unused))95>"),
    (rf"<(?P<details>details)\b(?:{_TYPED}|[^<>]{{0,200}}>\s*{_SUMMARY})", r"</(?P<details>details)\s*>"),
    (
        rf"{_LINE_START}(?P<spoken>thinking)(?:\.\.\.|…)[ \t]*(?:\n|\Z)",
        rf"{_LINE_START}(?:\.\.\.|…)\s*done (?P<spoken>thinking)\.?[ \t]*(?=\n|\Z)",
    ),
    # Harmony: the analysis channel ends with its message.
    (
        r"(?P<channel>)(?:<\|start\|>\s*assistant\s*)?<\|channel\|>\s*(?:analysis\b|commentary\b(?!\s*to=))",
        r"(?P<channel>)<\|(?:end|return)\|>",
    ),
    (r"(?P<turn>)<\|channel>\s*(?:thought|analysis)\b", r"(?P<turn>)<channel\|>"),
    (r"(?P<inner><\|inner_)prefix\|>", r"(?P<inner><\|inner_)suffix\|>"),
    # An answer may contain the next three spellings as plain words, so they open thinking only if they are closed.
    (r"(?P<words>)\A\s*(?:assistant)?analysis(?-i:(?=[A-Z]))", r"(?P<words>)assistant(?:commentary)?final"),
    (
        r"(?P<phrase>)\A\s*here(?: is|['\u2019]s) my thought process:",
        r"(?P<phrase>)here(?: is|['\u2019]s) my response:",
    ),
    (
        rf"(?P<heading>){_HEADING}{_OF_THINKING}{_HEADING_END}",
        rf"(?P<heading>){_HEADING}(?:my |the )?(?:final )?{_OF_AN_ANSWER}{_HEADING_END}",
    ),
    # This row has no opening tag: all text before the beginning of the answer is thinking.
    (r"(?P<answer>)(?!)", rf"(?P<answer>)(?:{_ANSWER_BEGINS})"),
)
_OPENERS = "|".join(opener for opener, _ in _SPELLINGS)
_CLOSERS = "|".join(closer for _, closer in _SPELLINGS)
OPENER = lazy_pattern(_OPENERS, re.IGNORECASE)
CLOSER = lazy_pattern(_CLOSERS, re.IGNORECASE)
# The patterns without groups, as parts of larger patterns.
OPENER_PATTERN, CLOSER_PATTERN = (re.sub(r"[?]P<[a-z]+>", "?:", pattern) for pattern in (_OPENERS, _CLOSERS))

# The name and the text of the group that an opening tag and its closing tag share.
SpellingKey = tuple[str, str]

_MUST_BE_CLOSED = frozenset({"words", "phrase", "heading", "spoken"})
# Groups of different rows whose tags may close each other: `<|think|>…<|end_think|>`.
_KIN = {"block": "tag", "edge": "tag"}
# Spellings whose closing tags are common in texts without thinking.
_CLOSES_ONLY_ITS_OWN = frozenset({"details", "channel", "phrase", "heading"})
_ANSWER: SpellingKey = ("answer", "")
_ENDS_WITH_THE_ANSWER = frozenset({"channel", "tag"})


def key_of(delimiter: re.Match[str]) -> SpellingKey:
    """Return the key by which an opening and a closing tag match. Models also close `<think>` with `</thinking>`."""
    name = delimiter.lastgroup or ""
    return _KIN.get(name, name), (delimiter[name] or "").lower().removesuffix("ing").removesuffix("s")


def may_stay_open(opener: re.Match[str]) -> bool:
    """Whether an opening tag without a closing tag makes the rest of the text thinking."""
    is_stage_direction = opener[0].startswith("[") and not opener[0].isupper()
    return key_of(opener)[0] not in _MUST_BE_CLOSED and not is_stage_direction


def closes_alone(closer: re.Match[str]) -> bool:
    """Whether a closing tag without an opening tag makes the text before it thinking.

    The chat templates of some models put the opening tag into the prompt.
    """
    return key_of(closer)[0] not in _CLOSES_ONLY_ITS_OWN


def end_of_thought(text: str, opener: re.Match[str], void: frozenset[SpellingKey] = frozenset()) -> int | None:
    """Return the end of the thinking after an opening tag, or None if nothing closes it. Tags in `void` are text."""
    return next(_ends_of_thought(text, opener, void), None)


def last_end_of_thought(text: str, opener: re.Match[str]) -> int | None:
    """Return the end of the last closing tag that matches an opening tag, or None."""
    return max(_ends_of_thought(text, opener, frozenset()), default=None)


def _ends_of_thought(text: str, opener: re.Match[str], void: frozenset[SpellingKey]) -> Iterator[int]:
    key = key_of(opener)
    closing = ({key, _ANSWER} if key[0] in _ENDS_WITH_THE_ANSWER else {key}) - void
    return (each.end() for each in CLOSER.finditer(text, opener.end()) if key_of(each) in closing)


# A fence or an opener at the beginning of a line.
BLOCK = lazy_pattern(rf"^(?P<indent>[ ]{{0,3}})(?:`{{3,}}|~{{3,}}|{OPENER_PATTERN})", re.IGNORECASE | re.MULTILINE)
_REST_OF_LINE = lazy_pattern(r"[ \t]*(?:\n\s*|\Z)")
_DELIMITER = lazy_pattern(rf"(?P<fence>`{{3,}}|~{{3,}})|(?P<opener>{OPENER_PATTERN})|{CLOSER_PATTERN}", re.IGNORECASE)
_FENCE = lazy_pattern(r"`{3,}|~{3,}")
# White space and invisible characters before thinking.
BLANKS = lazy_pattern(r"[\s\ufeff\u200b-\u200d\u2060]*")
_TURN = r"<\|(?:im_start|start|begin|turn)\|?>|<start_of_turn>|<\|start_header_id\|>|<\|(?:assistant|user|system)\|>"
# Remains of the beginning of a turn that servers do not remove.
_TURN_START = lazy_pattern(
    rf"(?:(?:(?:{_TURN})\s*(?:assistant|model)\b|<[|\uff5c]assistant[|\uff5c]>|<\|message\|>|\[/INST\])\s*"
    r"(?:<\|end_header_id\|>\s*)?)+",
    re.IGNORECASE,
)
_WRAPPER = lazy_pattern(r"(?:<(?:answer|response|output|solution)>|<\|begin_of_box\|>)\s*", re.IGNORECASE)
_WRAPPER_END = lazy_pattern(
    r"(?<!\s)\s*(?:</(?:answer|response|output|solution)>|<\|end_of_box\|>)(?:\s*\Z)?", re.IGNORECASE
)
# Remains of the end of a turn that servers do not remove.
_END = (
    r"<\|(?:end|return|im_end|eot_id|eot|endoftext|end_of_text|end_of_turn|end_of_turn_token|end_response|end_text"
    r"|end_of_solution)\|>|<end_of_turn>|<turn\|>|<\uff5cend\u2581of\u2581sentence\uff5c>|</s>|<eos>"
    r"|\[END FINAL RESPONSE\]|\[\|endofturn\|\]"
)
_TURN_END = lazy_pattern(rf"(?<!\s)\s*(?:{_END})\s*\Z", re.IGNORECASE)
# A model without a working stop token continues with the next turn or with more thinking.
_NEXT_TURN = lazy_pattern(rf"(?:{_END})\s*(?:{_TURN})", re.IGNORECASE)
_ANY_TURN = lazy_pattern(_TURN, re.IGNORECASE)
_TURN_END_CHARS = 30
_NEVER = -1


class AnswerPosition(NamedTuple):
    """The position of the answer in a generator's text."""

    start: int  # The beginning of the answer; without an answer the end of the text
    is_wrapped: bool = False  # A tag such as `<answer>` encloses the answer
    is_thinking: bool = False  # The text ends within its thinking


def answer_in(text: str) -> str:
    """Return the answer in a generator's text, without thinking and without the tokens that end a turn."""
    place = find_answer(text, is_whole=True)
    answer = _of_one_turn(text[place.start :])
    while token := _TURN_END.search(answer, max(0, len(answer.rstrip()) - _TURN_END_CHARS)):
        if "</s>" in token[0] and re.search(r"<s[ >]", answer):
            break
        answer = answer[: token.start()]
    if place.is_wrapped and (ends := list(_WRAPPER_END.finditer(answer))):
        answer = answer[: ends[-1].start()] + answer[ends[-1].end() :]
    return _without_blocks(answer)


def _of_one_turn(answer: str) -> str:
    """Remove further turns that a model wrote after its own. An answer that quotes a whole turn stays."""
    following = _NEXT_TURN.search(answer)
    if following is None or _ANY_TURN.search(answer, 0, following.start()):
        return answer
    is_code = len(_FENCE.findall(answer, 0, following.start())) % 2 or answer[: following.start()][-1:] in _QUOTES
    return answer if is_code else answer[: following.start()]


def _without_blocks(answer: str) -> str:
    """Remove thinking in the middle of an answer if it has a closing tag, and is on its own lines outside of fences."""
    kept: list[str] = []
    at = start = 0
    is_code = False
    unclosed: set[SpellingKey] = set()
    while delimiter := BLOCK.search(answer, at):
        at = delimiter.end()
        opener = OPENER.match(answer, delimiter.end("indent"))
        is_code ^= opener is None
        if is_code or opener is None or not _begins_block(opener) or key_of(opener) in unclosed:
            continue
        end = end_of_thought(answer, opener)
        if end is None:
            unclosed.add(key_of(opener))
        elif line_end := _REST_OF_LINE.match(answer, end):
            kept.append(answer[start : delimiter.start()])
            at = start = line_end.end()
    return "".join((*kept, answer[start:]))


def _begins_block(opener: re.Match[str]) -> bool:
    """Whether an opening tag in the middle is the model's own, and not an element of an answer in XML."""
    group, name = key_of(opener)
    is_element = opener.string[max(0, opener.start() - _NEARBY_CHARS) : opener.start()].rstrip().endswith(">")
    return may_stay_open(opener) and (group != "tag" or (name == "think" and not is_element))


def find_answer(text: str, *, is_whole: bool = False) -> AnswerPosition:
    """Find the end of the thinking in a generator's text.

    Thinking is at the beginning, or before a closing tag whose opening tag was in the prompt. Other tags are text. If
    the text is complete (`is_whole`), the thinking may have opened a fence that is still open at its end.
    """
    turn = _TURN_START.match(text, _after_blanks(text, 0))
    start = at = turn.end() if turn else 0
    opened: set[SpellingKey] = set()
    is_code = False
    fences = len(_FENCE.findall(text)) if is_whole else 0
    while delimiter := _DELIMITER.search(text, at):
        at = max(delimiter.end(), delimiter.start() + 1)
        end: int | None = None
        if delimiter["fence"]:
            is_code = not is_code
            fences -= 1
        elif delimiter["opener"]:
            end = _leading_thought(text, start, delimiter.start(), opened)
        elif not is_code or (is_whole and fences % 2 == 0):
            end = _lone_closer(text, delimiter.start(), opened)
        if end == _NEVER:
            return AnswerPosition(len(text), is_thinking=True)
        if end is not None:
            start = at = end
            opened.clear()
            is_code = False
    if not start:
        return AnswerPosition(0)
    start = _after_blanks(text, start)
    wrapper = _WRAPPER.match(text, start)
    return AnswerPosition(wrapper.end(), is_wrapped=True) if wrapper else AnswerPosition(start)


def _after_blanks(text: str, at: int) -> int:
    blanks = BLANKS.match(text, at)
    return blanks.end() if blanks else at


def _leading_thought(text: str, start: int, at: int, opened: set[SpellingKey]) -> int | None:
    """Return the end of the thinking that begins at `at`, or None if the opening tag there is only text."""
    opener = OPENER.match(text, at)
    if opener is None:
        return None
    if at <= _after_blanks(text, start):
        end = end_of_thought(text, opener)
        if end is not None or may_stay_open(opener):
            return _NEVER if end is None else end
    opened.add(key_of(opener))
    return None


def _lone_closer(text: str, at: int, opened: set[SpellingKey]) -> int | None:
    """Return the end of a closing tag whose opening tag is in the prompt, or None if the text only mentions the tag."""
    closer = CLOSER.match(text, at)
    if closer is None or not closes_alone(closer) or key_of(closer) in opened:
        return None
    before, after = text[max(0, at - _NEARBY_CHARS) : at], text[closer.end() : closer.end() + _NEARBY_CHARS]
    is_mentioned = _is_code(before, after) or _is_mentioned(before, after, is_answer=key_of(closer) == _ANSWER)
    return None if is_mentioned else closer.end()


_NEARBY_CHARS = 200
_QUOTES = frozenset("`'\"\u201c\u2018\u00ab")
_SENTENCE_ENDS = frozenset(".!?:)\n\u2026\u3002\uff01\uff1f")
_CODE_OR_ITEM = lazy_pattern(r"(?: {4}|\t)\s*|\s*(?:[-*+]|\d{1,2}[.)])\s+")


def _is_code(before: str, after: str) -> bool:
    """Whether a position is in inline code, in indented code, or in an item of a list."""
    line = before.rpartition("\n")[2]
    if line.count("`") % 2:
        return "`" in after.partition("\n")[0]
    return "\n" in before and _CODE_OR_ITEM.fullmatch(line) is not None


def _is_mentioned(before: str, after: str, *, is_answer: bool) -> bool:
    """Whether a text only mentions a closing tag: after a quotation mark or a backtick, or in a sentence."""
    if before[-1:] in _QUOTES or before.endswith("\\n"):
        return True
    is_in_line = before[-1:] in {" ", "\t"} and before.rstrip(" \t")[-1:] not in {*_SENTENCE_ENDS, ""}
    return is_in_line and (is_answer or after[:1] in {*" \t,;:.?!)"})
