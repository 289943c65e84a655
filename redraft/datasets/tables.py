"""Reads CSV and TSV as records of cells with their line numbers.

After an invalid record, reading continues with the next line.
"""

import csv
import io
import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice

from redraft.datasets.lines import BOM, ROW_CHARS_MAX, Line, lines_of, too_long
from redraft.errors import Invalid

DELIMITERS = (",", ";", "\t", "|")
# Some spreadsheets name the delimiter in a line before the header
_SEPARATOR = re.compile(r"sep=(.)[\r\n]*", re.IGNORECASE)
_SAMPLE_LINES = 50
_SAMPLE_CHARS = 65_536
_RECORD_LINES_MAX = 100_000
# After an unclosed quote, the lines of its record are read again. This could take too long for a file with many such
# quotes, so the number of these characters is limited to this multiple of the maximum length of a row
_READ_AGAIN_MAX = 10


# The lines of a row, and its cells with line feeds as line ends. There are no cells if the lines have a fault
Record = tuple[Line, list[str]]


class Table:
    """A table with its header and its records. A column without a name is named `column N`.

    Raises Invalid if the header is not usable (`no_rows`, `invalid_header`, `duplicate_column`).
    """

    def __init__(self, text: io.TextIOWrapper, delimiter: str | None, longest: int = ROW_CHARS_MAX) -> None:
        # The csv module has one limit for all readers, by default 128 KiB, which is too low for long texts
        csv.field_size_limit(max(csv.field_size_limit(), longest))
        lines = lines_of(text, longest)
        sample = _sample(lines)
        named = _SEPARATOR.fullmatch(sample[0].text) if sample else None
        if named:
            delimiter = delimiter or named[1]
            del sample[0]
        self.delimiter = delimiter or sniff([line.text for line in sample])
        skips_blanks = has_blanks_before_quotes([line.text for line in sample], self.delimiter)
        self._records = _records(chain(sample, lines), self.delimiter, longest, skips_blanks=skips_blanks)
        self.header = self._read_header()

    def records(self) -> Iterator[Record]:
        """Yield the records that are not empty. A record with a wrong number of cells has a fault."""
        wanted = len(self.header)
        for line, cells in self._records:
            there = len(cells)
            if line.fault is None and there != wanted:
                advice = f"; cells that hold {_shown(self.delimiter)} stand in quotes" if there > wanted else ""
                words = f"has {_cells(there)}, the header has {_cells(wanted)}{advice}"
                yield replace(line, fault=words), []
            else:
                yield line, cells

    def _read_header(self) -> list[str]:
        first = next(self._records, None)
        if first is None:
            raise Invalid("The file holds no rows.", code="no_rows")
        line, cells = first
        if line.fault:
            raise Invalid(f"The header, line {line.number}, {line.fault}.", code="invalid_header")
        names = [cell.strip().lstrip(BOM).strip() or f"column {at}" for at, cell in enumerate(cells, 1)]
        if len(set(names)) < len(names):
            twice = Counter(names).most_common(1)[0][0]
            words = f"Two columns are called {twice[:100]!r}: give each a name of its own."
            raise Invalid(words, code="duplicate_column")
        return names


def sniff(lines: Sequence[str]) -> str:
    """Return the delimiter that gives the header several cells, and most of the other lines the same number."""
    return max(DELIMITERS, key=lambda delimiter: _fit(lines, delimiter))


def has_blanks_before_quotes(lines: Sequence[str], delimiter: str) -> bool:
    """Whether records have blanks between a delimiter and a quote, as in `1, "a, b"`. Such blanks are skipped."""
    if not any(f"{delimiter} " in line and ' "' in line for line in lines):
        return False
    readers = (csv.reader(lines, delimiter=delimiter, skipinitialspace=skips) for skips in (False, True))
    kept, skipped = (sum(cell.lstrip(" ").startswith('"') for cells in rows for cell in cells) for rows in readers)
    return kept > skipped


def _fit(lines: Sequence[str], delimiter: str) -> tuple[float, int]:
    widths = [len(cells) for cells in csv.reader(lines, delimiter=delimiter, skipinitialspace=True) if cells]
    # A delimiter that does not occur in the lines gives each line one cell, although it is not the delimiter
    if not widths or widths[0] == 1:
        return (0.0, 0)
    return (widths.count(widths[0]) / len(widths), widths[0])


def _sample(lines: Iterator[Line]) -> list[Line]:
    sample: list[Line] = []
    length = 0
    for line in islice(lines, _SAMPLE_LINES):
        sample.append(line)
        length += line.length
        if length > _SAMPLE_CHARS:
            break
    return sample


class _Overlong(Exception):  # noqa: N818 - ends a call of csv's reader
    pass


class _Feed:
    """The iterator of lines for csv's reader. It remembers the lines of the current record."""

    def __init__(self, lines: Iterator[Line], longest: int) -> None:
        self._lines = lines
        self._longest = longest
        self._back: deque[Line] = deque()
        self._chars_left = _READ_AGAIN_MAX * longest
        self._lines_left = _READ_AGAIN_MAX * _RECORD_LINES_MAX
        self.taken: list[Line] = []
        self._length = 0

    def __iter__(self) -> "_Feed":
        return self

    def __next__(self) -> str:
        line = self._back.popleft() if self._back else next(self._lines)
        self.taken.append(line)
        self._length += line.length
        if self._length > self._longest or len(self.taken) > _RECORD_LINES_MAX:
            words = (
                f"opens a quote that is not closed within {self._longest:,} characters and {_RECORD_LINES_MAX:,} lines"
            )
            raise _Overlong(too_long(line.length, self._longest) if len(self.taken) == 1 else words)
        return line.text

    def begin(self) -> None:
        self.taken = []
        self._length = 0

    def give_back(self) -> None:
        """Return all lines of a record except the first to the input, within the limits of `_READ_AGAIN_MAX`."""
        again = self.taken[1:]
        self._chars_left -= sum(line.length for line in again)
        self._lines_left -= len(again)
        if self._chars_left >= 0 and self._lines_left >= 0:
            self._back.extendleft(reversed(again))
            del self.taken[1:]


def _records(lines: Iterator[Line], delimiter: str, longest: int, *, skips_blanks: bool) -> Iterator[Record]:
    feed = _Feed(lines, longest)
    reader = csv.reader(feed, delimiter=delimiter, strict=True, skipinitialspace=skips_blanks)
    while True:
        feed.begin()
        fault = None
        cells: list[str] = []
        try:
            cells = next(reader)
        except StopIteration:
            return
        except _Overlong as error:
            fault = str(error)
        except csv.Error as error:
            fault = _fault_words(error, delimiter)
        if not (fault or skips_blanks) and has_blanks_before_quotes([line.text for line in feed.taken], delimiter):
            fault = f"has a blank before a quote: the quote stands right behind {_shown(delimiter)}"
        if fault:
            feed.give_back()
        # A wrong encoding or length of a line is a more useful reason than the error of the csv module
        fault = next((line.fault for line in feed.taken if line.fault), fault)
        if fault or any(cell.strip() for cell in cells):
            text = "".join(line.text for line in feed.taken)
            line = Line(feed.taken[0].number, feed.taken[-1].last, text, len(text), fault)
            yield line, [] if fault else [cell.replace("\r\n", "\n") for cell in cells]


def _fault_words(error: csv.Error, delimiter: str) -> str:
    words = str(error)
    if "unexpected end" in words:
        return "opens a quote that is never closed"
    if "expected after" in words:
        advice = f"within quotes, a quote is written twice, and {_shown(delimiter)} follows"
        return f"has text after a closing quote; {advice}"
    return f"is no CSV: {words}"


def _shown(delimiter: str) -> str:
    return "a tab" if delimiter == "\t" else f"'{delimiter}'"


def _cells(count: int) -> str:
    return f"{count} cell" if count == 1 else f"{count} cells"
