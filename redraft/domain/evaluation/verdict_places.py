"""Where a verdict stands in a reply: given on its own, or spoken of in a sentence."""

import re
from dataclasses import dataclass

WRAPPING = re.compile(r"`{3,}\w*|<[^<>\n]{0,60}>")
"""What stands around a verdict and says nothing: code fences and tags."""

_CHARS_MAX = 500
_LEAD = re.compile(r"(?<!\w)\w++\W++\w++[^\w:]*+\Z")


@dataclass(frozen=True, slots=True)
class Place:
    """What stands around an object in a reply.

    Attributes:
        before: the part of its line before it.
        behind: the beginning of what follows it.
    """

    before: str = ""
    behind: str = ""

    @property
    def is_within_a_sentence(self) -> bool:
        """Whether it is spoken of: words lead to it without a colon, and others follow."""
        return self._is_led_to and self._goes_on

    @property
    def is_beside_words(self) -> bool:
        """Whether it may be spoken of."""
        return self._is_led_to or self._goes_on

    @property
    def _is_led_to(self) -> bool:
        return bool(_LEAD.search(WRAPPING.sub("", self.before)))

    @property
    def _goes_on(self) -> bool:
        line = self.behind.partition("\n")[0].partition("{")[0]
        return bool(re.search(r"\w", WRAPPING.sub("", line)))


NOWHERE = Place()


def place_of(text: str, start: int, end: int) -> Place:
    """Return what stands around a part of a text, without objects beside it in its line."""
    before = re.split(r"[\n}]", text[max(0, start - _CHARS_MAX) : start])[-1]
    return Place(before, text[end : end + _CHARS_MAX])
