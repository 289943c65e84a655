"""Colours code in answers: keywords, strings, comments, numbers and names, by classes of the style sheet."""

import re
from functools import lru_cache
from typing import Any

from markupsafe import escape
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType]
from pygments.token import Comment, Keyword, Name, Number, String

# The lexers are regular expressions, and the code comes from a model. So the languages and the length are limited.
# Java is left out: its lexer takes seconds for some thousands of empty lines
LANGUAGES = {
    *("bash", "c", "cpp", "css", "go", "html", "javascript", "js", "json", "py", "python", "rust", "sh", "sql"),
    *("toml", "ts", "typescript", "xml", "yaml"),
}
_CHARS_MAX = 8_000
_LINE_CHARS_MAX = 400
# Code with more blanks in a row is not coloured: at each empty line, the lexer of C reads all further empty lines again
_BLANK_CHARS_MAX = 200
_BLANK = re.compile(r"\s+")
_CLASSES = (
    (Comment, "code-comment"),
    (Keyword, "code-keyword"),
    (String, "code-string"),
    (Number, "code-number"),
    (Name.Function, "code-name"),
    (Name.Class, "code-name"),
    (Name.Tag, "code-keyword"),
    (Name.Attribute, "code-name"),
)
CLASSES = {name for _, name in _CLASSES}


# The page of a live job renders the same answers again at each event
@lru_cache(maxsize=200)
def color_code(code: str, language: str) -> str:
    """Return code as HTML, or an empty text if it is too long or its language is not known."""
    name = language.lower()
    if name not in LANGUAGES or len(code) > _CHARS_MAX:
        return ""
    if _longest(code.split("\n")) > _LINE_CHARS_MAX or _longest(_BLANK.findall(code)) > _BLANK_CHARS_MAX:
        return ""
    return "".join(_part(kind, text) for kind, text in _lexer(name).get_tokens(code))


def _longest(texts: list[str]) -> int:
    return max(map(len, texts), default=0)


def _part(kind: Any, text: str) -> str:
    name = next((name for parent, name in _CLASSES if kind in parent), None)
    return f'<span class="{name}">{escape(text)}</span>' if name else str(escape(text))


@lru_cache
def _lexer(name: str) -> Lexer:
    return get_lexer_by_name(name, stripnl=False, ensurenl=False)
