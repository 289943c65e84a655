"""The list of sources that an answer ends with: told from prose, read entry by entry, and written.

A list is a line that says nothing but "Sources", "References" or the like, and entries right beneath it that each
begin with a number. So "Sources of energy" heads no list, and neither does "Sources" above entries without numbers.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_TITLES = (
    "sources?(?: used| cited)?|references|citations|endnotes|footnotes|notes|bibliography|works cited|quellen"
    "|quellenverzeichnis|literatur|références|bibliographie|fuentes|referencias|bibliografía|fonti|riferimenti"
    "|fontes|referências|bronnen|источники|来源|參考文獻|参考文献|参考资料|出典|참고문헌|출처|المصادر|المراجع"
)
_HEADING = re.compile(
    rf"(?:#{{1,6}}\s+)?[*_]{{0,3}}(?:{_TITLES})[*_]{{0,3}}\s*[:\uff1a]?[*_]{{0,3}}\s*#*", re.IGNORECASE
)
_IN_ONE_LINE = re.compile(rf"[*_]{{0,3}}(?:{_TITLES})[*_]{{0,3}}\s*[:\uff1a][*_]{{0,3}}\s*(?=\S)", re.IGNORECASE)

SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
PLAIN_DIGITS = str.maketrans(SUPERSCRIPTS, "0123456789")

_NAMED = r"(?:sources?|quelle|fuente|fonte|bron|источник|来源|來源|出典|출처|المصدر)[ \t]*[:#]?[ \t]*(?P<{}>\d{{1,40}})"
_ENTRY = re.compile(
    r"[>\s]*(?:[-*+•\u2013][ \t]+)?(?P<whole>[*_]{0,2}"
    rf"(?:\[\^?(?:{_NAMED.format('a')}|(?P<b>\d{{1,40}}))\]:?|(?P<c>\d{{1,40}})[.):]|(?P<d>[{SUPERSCRIPTS}]{{1,40}})"
    rf"|{_NAMED.format('e')}(?=[ \t]*(?:[:.,\u2013\u2014*_-]|$)))"
    rf"(?:[*_]{{0,2}}[ \t]*\[?{_NAMED.format('f')}\]?)?)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the list.

    Attributes:
        label: the number that the line begins with.
        number: the source it stands for: the label, but for lines such as `1. Source 3: …`.
        start: where label and number begin, in characters of the answer.
        end: where they are over.
    """

    label: int
    number: int
    start: int
    end: int


def heads_a_list(line: str) -> bool:
    return _HEADING.fullmatch(line.strip()) is not None


def list_in_one_line(line: str) -> int | None:
    """Where the marks begin in a line such as `Sources: [1], [3]`; whether they are marks is for others to say."""
    found = _IN_ONE_LINE.match(line)
    return found.end() if found else None


def read_entry(line: str, start: int) -> Entry | None:
    """The entry in a line.

    Args:
        line: without its line end.
        start: where the line begins in the answer.
    """
    found = _ENTRY.match(line)
    if found is None:
        return None
    label = next(found[name] for name in "abcde" if found[name])
    named: str | None = found["f"]
    number = int(label.translate(PLAIN_DIGITS))
    return Entry(number, int(named) if named else number, start + found.start("whole"), start + found.end("whole"))


def write_endnotes(titles: Iterable[tuple[int, str]]) -> str:
    """A list of sources, by number and title, in the form that is read back; nothing for none."""
    lines = [f"[Source {number}] {' '.join(title.split())}".rstrip() for number, title in titles]
    return "\n".join(("Sources:", *lines)) if lines else ""
