"""The text of pages that Chromium has printed as PDF. Its files are plain enough to be read without a library."""

import re
import zlib
from collections.abc import Iterator, Mapping

_OBJECT = re.compile(rb"(\d+) 0 obj\n(.*?)\nendobj", re.DOTALL)
_FONT = re.compile(rb"/(F\d+) (\d+) 0 R")
_SHOWN = re.compile(rb"/(F\d+) [\d.]+ Tf|<([0-9A-F]+)> Tj|\[(.*?)\] TJ", re.DOTALL)
_HEX = re.compile(rb"<([0-9A-Fa-f]+)>")


def text_of_pdf(data: bytes) -> str:
    """All shown characters, without white space: a PDF has places of glyphs, not words."""
    objects = {int(number): body for number, body in _OBJECT.findall(data)}
    return "".join("".join(_shown(body, objects)) for body in objects.values() if re.search(rb"/Type /Page\b", body))


def _shown(page: bytes, objects: Mapping[int, bytes]) -> Iterator[str]:
    fonts = {name: _characters(objects[int(number)], objects) for name, number in _FONT.findall(page)}
    contents = re.search(rb"/Contents (\d+) 0 R", page)
    assert contents
    characters: Mapping[int, str] = {}
    for font, glyphs, several in _SHOWN.findall(_stream(objects[int(contents[1])])):
        if font:
            characters = fonts[font]
        for part in [glyphs] if glyphs else _HEX.findall(several):
            for at in range(0, len(part), 4):
                yield characters.get(int(part[at : at + 4], 16), "").strip()


def _characters(font: bytes, objects: Mapping[int, bytes]) -> Mapping[int, str]:
    """The characters of a font's glyphs."""
    table = re.search(rb"/ToUnicode (\d+) 0 R", font)
    if not table:
        return {}
    found: dict[int, str] = {}
    for kind, lines in re.findall(rb"beginbf(char|range)\n(.*?)endbf", _stream(objects[int(table[1])]), re.DOTALL):
        for line in lines.splitlines():
            first, *others = _HEX.findall(line)
            last = others[0] if kind == b"range" else first
            text = bytes.fromhex(others[-1].decode()).decode("utf-16-be")
            for number in range(int(first, 16), int(last, 16) + 1):
                found[number] = text[:-1] + chr(ord(text[-1]) + number - int(first, 16))
    return found


def _stream(body: bytes) -> bytes:
    head, _, rest = body.partition(b"stream\n")
    content = rest.rpartition(b"\nendstream")[0]
    return zlib.decompress(content) if b"FlateDecode" in head else content
