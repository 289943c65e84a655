"""Frame untrusted texts in prompts, so that no text can end its frame, a turn, or the prompt."""

import re
import unicodedata
from functools import cache

from redraft.caching import cached_once

_NONCE_CHARS_MIN = 8

_INVISIBLE = (
    "\x00-\x1f\x7f-\x9f\u00ad\u0300-\u036f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufe20-\ufe2f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
)
_OPENERS = (
    "<\u00ab\u02c2\u1438\u16b2\u2039\u226a\u227a\u22d6\u2329\u276c\u276e\u2770\u27e8\u27ea\u29fc\u3008\u300a"
    "\ufe3d\ufe3f\ufe64\uff1c"
)
_SLASHES = "/\u2044\u2215\u2571\u29f8\uff0f\\\\"
# Letters of other scripts that look like Latin letters. Styled Latin letters are recognised by their compatibility
# form.
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


# The control tokens of chat templates: tokens with bars in angle brackets, and known words in plain angle brackets.
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


def escape_control_tokens(text: str) -> str:
    """Replace the first bracket of each control token by an HTML entity, since such a token could end a turn."""
    return _SQUARE_TOKEN.sub(lambda match: f"&#{ord(match[0])};", _ANGLED_TOKEN.sub("&lt;", text))


def escape_delimiters(text: str, nonce: str, tags: tuple[str, ...]) -> str:
    """Escape the delimiters of frames, the control tokens of chat templates, and the nonce in an untrusted text.

    The bracket of each look-alike of a tag (any case or spacing, invisible characters, other brackets, letters of other
    scripts) becomes `&lt;`, and the nonce becomes `[…]`. `tags` are the tags of all frames in the prompt; `#` stands
    for any number, as in `source-#`.
    """
    return escape_control_tokens(_look_alike(tags).sub("&lt;", without_nonce(text, nonce)))


def without_nonce(text: str, nonce: str) -> str:
    """Replace a nonce by `[…]` in an untrusted text."""
    # This test is faster than compiling a pattern for each nonce, and untrusted texts seldom contain the nonce
    if nonce.casefold() in text.casefold():
        return re.sub(nonce, "[…]", text, flags=re.IGNORECASE)
    return text


def frame(text: str, tag: str, nonce: str, tags: tuple[str, ...] = ()) -> str:
    """Wrap untrusted text in delimiters that it cannot close: `<tag id="nonce">`, `</tag id="nonce">`.

    Look-alikes of `tags` in the text are escaped; by default look-alikes of `tag`.

    Raises:
        ValueError: the tag is no plain word, or the nonce is short or not alphanumeric.
    """
    if not re.fullmatch(r"[A-Za-z][\w-]*", tag, re.ASCII):
        raise ValueError(f"{tag!r} is no tag name.")
    if not re.fullmatch(rf"[A-Za-z0-9]{{{_NONCE_CHARS_MIN},}}", nonce):
        raise ValueError(f"A nonce has at least {_NONCE_CHARS_MIN} letters and digits.")
    body = escape_delimiters(text, nonce, tags or (tag.lower(),))
    return f'<{tag} id="{nonce}">\n{body}\n</{tag} id="{nonce}">'
