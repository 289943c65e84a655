"""Clean texts for storage, compare and cut them, and frame untrusted texts for prompts."""

import math
import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from itertools import accumulate
from typing import Any, cast

import unicode_segmentation_rs as segmentation

from redraft.domain.admin.caching import cached_once

# Deeper JSON is cut off, because neither `json` nor the databases read it back safely.
NESTING_MAX = 200
# Python refuses to write integers of more than 4300 digits. Those of 14,000 bits have fewer.
_INTEGER_BITS_MAX = 14_000
_NONCE_CHARS_MIN = 8
# The longest visible character that a cut keeps whole, in code points. An emoji of a family has about ten.
_CHARACTER_MAX = 100

_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f]")
_OTHER_BLANKS = str.maketrans("\v\f", "  ")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def clean(text: str) -> str:
    """Make a text storable. PostgreSQL rejects U+0000, and UTF-8 cannot encode lone surrogates.

    It removes the C0 controls except tab, newline and carriage return. Vertical tab and form feed become spaces,
    because they separate words. Lone surrogates become U+FFFD, and split pairs are joined.
    """
    if text.isascii() and text.isprintable():
        return text  # the fast path for nearly all texts of a row
    text = _CONTROLS.sub("", text.translate(_OTHER_BLANKS))
    if _SURROGATES.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def clean_json(value: Any) -> Any:
    """Make a JSON value storable, keys included. The result is strict JSON.

    Numbers that JSON cannot represent (NaN, infinities, integers of thousands of digits) become None, as do values
    nested deeper than `NESTING_MAX`. Tuples become lists, and other objects their text.
    """
    return _clean_value(value, NESTING_MAX)


def _clean_value(value: Any, levels: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _INTEGER_BITS_MAX else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        members = cast("Mapping[Any, Any]", value).items()
        return {clean(str(key)): _clean_value(member, levels - 1) for key, member in members} if levels else None
    if isinstance(value, list | tuple):
        return [_clean_value(member, levels - 1) for member in cast("list[Any]", value)] if levels else None
    return clean(str(value))


def fold(text: str) -> str:
    """Replace each run of white space by one space and strip the ends, for the comparison of answers."""
    return " ".join(text.split())


# Letters and symbols that print nothing: Hangul fillers, the blank Braille pattern, the replacement character.
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800\ufffd")
_ASCII_SYMBOLS = frozenset("$+<=>^`|~")
_EMPTY_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Sk"})


def _listed(names: str) -> frozenset[str]:
    return frozenset(" ".join(names.split()).split(", "))


# Lead-ins that evaluator models accepted as answers (arXiv 2507.08794), and similar ones.
_LEAD_INS = _listed("""
    answer, final answer, here is my answer, here is the answer, here is the solution, here's my answer, here's
    the answer, here's the solution, i will solve this step by step, i'll solve this step by step, let me solve
    this step by step, let me think, let me think step by step, let's begin, let's solve this problem, let's
    solve this problem step by step, let's solve this step by step, let's think step by step, my answer, my
    answer is, solution, the answer, the answer is, the final answer, the final answer is, the solution, the
    solution is, thinking process, thought process, lösung, respuesta, réponse, かいせつ, 解, 解答
""")
# Words that are a possible answer unless a colon follows them.
_LABELS = _listed("""
    analysis, assistant, explanation, output, reasoning, response, result, step by step, sure, thinking,
    thought, thoughts
""")


# A wrapper that models write around answers and thoughts, with nothing in it.
_EMPTY_WRAPPER = re.compile(r"<(answer|think|thinking|thought|response|output|result)>\s*</\1>", re.IGNORECASE)


def is_trivial(answer: str) -> bool:
    """Whether an answer is empty, only punctuation, or a bare lead-in such as "Thought process:".

    Evaluator models often accept such answers, so code rejects them first.
    """
    words = _words_of(_EMPTY_WRAPPER.sub("", answer))
    if not words or words in _LEAD_INS:
        return True
    return words in _LABELS and any(colon in answer for colon in ":\uff1a")


def _words_of(text: str) -> str:
    """Return the words of a text in lower case, without invisible characters, and without punctuation at the ends."""
    visible = "".join(char for char in text if unicodedata.category(char) != "Cf")
    words = fold(visible.replace("\u2019", "'")).casefold()
    meaningful = [at for at, char in enumerate(words) if _has_meaning(char)]
    return words[meaningful[0] : meaningful[-1] + 1] if meaningful else ""


def _has_meaning(char: str) -> bool:
    category = unicodedata.category(char)
    is_empty = category[0] in "ZPM" or category in _EMPTY_CATEGORIES
    return not is_empty and char not in _BLANK and char not in _ASCII_SYMBOLS


_INVISIBLE = (
    "\x00-\x1f\x7f-\x9f\u00ad\u0300-\u036f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufe20-\ufe2f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
)
_OPENERS = (
    "<\u00ab\u02c2\u1438\u16b2\u2039\u226a\u227a\u22d6\u2329\u276c\u276e\u2770\u27e8\u27ea\u29fc\u3008\u300a"
    "\ufe3d\ufe3f\ufe64\uff1c"
)
_SLASHES = "/\u2044\u2215\u2571\u29f8\uff0f\\\\"
# Letters of other scripts that print like Latin ones; styled Latin letters are found by their compatibility form.
_ALIKE = (
    "a\u0430\u03b1\u0251\u0391\u0410 c\u0441\u03f2\u0421 d\u0501\u0257 e\u0435\u0451\u04bd\u0395\u0415 "
    "f\u0192\u03dd i\u0456\u03b9\u0131\u0406\u0399\u04cf1l k\u043a\u03ba\u041a\u039a "
    "n\u0578\u03b7\u043f\u039d o\u043e\u03bf\u0585\u041e\u039f0 r\u0433\u1d26 s\u0455\u0405\ua731 "
    "t\u0442\u03c4\u0422\u03a4 u\u057d\u03c5\u1d1c w\u0461\u051d\u03c9\u1d21"
)
LIKE = {group[0]: group[1:] for group in _ALIKE.split()}
_STYLED = (
    (0x1D2C, 0x1D6A),
    (0x2100, 0x214F),
    (0x24B6, 0x24E9),
    (0xFF21, 0xFF5A),
    (0x1D400, 0x1D7FF),
    (0x1F130, 0x1F189),
)


@cache
def _letter(letter: str) -> str:
    """Return a character class of all characters that look like a letter."""
    styled = (chr(code) for low, high in _STYLED for code in range(low, high + 1))
    same = "".join(char for char in styled if unicodedata.normalize("NFKC", char).casefold() == letter)
    return f"[{re.escape(letter + LIKE.get(letter, '') + same)}]"


@cached_once(maxsize=64)
def _look_alike(tags: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern for an opening bracket before one of the tags in any spelling; `#` stands for any number."""
    between = rf"[{_INVISIBLE}]*"
    names = "|".join(
        between.join(rf"\d(?:{between}\d)*" if char == "#" else _letter(char) for char in tag) for tag in tags
    )
    return re.compile(rf"[{_OPENERS}](?=[\s{_SLASHES}{_INVISIBLE}]*(?:{names})(?![\w-]))", re.IGNORECASE)


# Tokens with bars in angle brackets, and the known words in plain angle brackets.
_ANGLED_TOKEN = re.compile(
    r"<(?=[|\uff5c][\w/]|<\s*+/?\s*+SYS\s*>>"
    r"|[\w./:-]{1,40}[|\uff5c]>"
    r"|/?\s*+(?:s|bos|eos|pad|unk|sop|eop|tool_calls?|tool_response"
    r"|(?:begin|start|end)_?of_?\w{1,30}|(?:reserved|extra_id|unused|special|reserved_special_token)_?\d{1,5})\s*>)",
    re.IGNORECASE,
)
_SQUARE_TOKEN = re.compile(
    r"\[(?=/?\s*(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|g?MASK|BOS|EOS)\s*\])"
    r"|\](?=~!?b\])|\[(?=e~\[)"
)


def neutralise(text: str) -> str:
    """Replace the first bracket of each control token by an HTML entity, since such a token could end a turn."""
    return _SQUARE_TOKEN.sub(lambda match: f"&#{ord(match[0])};", _ANGLED_TOKEN.sub("&lt;", text))


def defuse(text: str, nonce: str, tags: tuple[str, ...]) -> str:
    """Neutralise delimiters of frames, control tokens of chat templates, and the nonce in an untrusted text.

    The bracket of each look-alike of a tag (any case or spacing, invisible characters, other brackets, letters of other
    scripts) becomes `&lt;`, and the nonce becomes `[…]`. `tags` are the tags of all frames in the prompt; `#` stands
    for any number, as in `source-#`.
    """
    if nonce.casefold() in text.casefold():  # rare, and each nonce needs a pattern of its own
        text = re.sub(nonce, "[…]", text, flags=re.IGNORECASE)
    return neutralise(_look_alike(tags).sub("&lt;", text))


def frame(text: str, tag: str, nonce: str, tags: tuple[str, ...] = ()) -> str:
    """Wrap untrusted text in delimiters that it cannot close: `<tag id="nonce">`, `</tag id="nonce">`.

    It neutralises look-alikes of this tag, or of the given `tags`.

    Raises:
        ValueError: the tag is no plain word, or the nonce is short or not alphanumeric.
    """
    if not re.fullmatch(r"[A-Za-z][\w-]*", tag, re.ASCII):
        raise ValueError(f"{tag!r} is no tag name.")
    if not re.fullmatch(rf"[A-Za-z0-9]{{{_NONCE_CHARS_MIN},}}", nonce):
        raise ValueError(f"A nonce has at least {_NONCE_CHARS_MIN} letters and digits.")
    body = defuse(text, nonce, tags or (tag.lower(),))
    return f'<{tag} id="{nonce}">\n{body}\n</{tag} id="{nonce}">'


def preview(text: str, chars: int) -> str:
    """Return the first `chars` characters and `…`, or the whole text if it is no longer.

    The cut never splits a grapheme, such as a letter with an accent.
    """
    if len(text) <= chars:
        return text
    # The library rejects surrogates. Signs that join the next and the previous character replace their halves.
    head = _SURROGATES.sub(
        lambda half: "\u0600" if half[0] < "\udc00" else "\u0301", text[: max(chars, 0) + _CHARACTER_MAX]
    )
    ends = accumulate(map(len, segmentation.graphemes(head, True)), initial=0)
    return text[: max(end for end in ends if end <= max(chars, 0))] + "…"
