import random
from itertools import pairwise

import pytest

from redraft.domain.text.diffs import CHARS_MAX, compare_words
from tests.support.waiting import cpu_bound


def told(old: str, new: str) -> str:
    """The parts in one line: -removed-, +added+."""
    signs = {"equal": "", "delete": "-", "insert": "+"}
    return "".join(f"{signs[part.kind]}{part.text}{signs[part.kind]}" for part in compare_words(old, new).parts)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", ""),
        ("same text", "same text", "same text"),
        ("", "new", "+new+"),
        ("old", "", "-old-"),
        ("The sky is blue.", "The sky looks blue.", "The sky -is -+looks +blue."),
        ("One.\nTwo is here.\nThree.", "One.\nTwo was here.\nThree.", "One.\nTwo -is -+was +here.\nThree."),
        ("a   b\n", "a b\n", "a b\n"),
        ("天空是蓝色的", "天空是红色的", "天空是-蓝-+红+色的"),
        ("cut the long text", "trim the whole page", "-cut the long text-+trim the whole page+"),
    ],
)
def test_changes_are_reported_word_by_word(old: str, new: str, expected: str):
    assert told(old, new) == expected


def test_both_texts_can_be_read_from_the_parts():
    words = [f"w{number}" for number in range(60)] + ["\n", ". ", "é", "字"]
    dice = random.Random(7)
    for _ in range(60):
        old, new = (" ".join(dice.choice(words) for _ in range(dice.randrange(80))) for _ in range(2))
        parts = compare_words(old, new).parts
        assert "".join(part.text for part in parts if part.kind != "delete") == new
        removed = "".join(part.text for part in parts if part.kind != "insert")
        assert removed.split() == old.split()
        assert all(one.kind != other.kind for one, other in pairwise(parts))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x" * 5_000_000, "y" * 5_000_000),
        ("x " * 200_000, "y x " * 200_000),
        ("." * 200_000, "," * 200_000),
        (*(" ".join(random.Random(seed).choices("abcdefgh", k=90_000)) for seed in (1, 2)),),
        (*("\n".join(random.Random(seed).choices("abcdefgh", k=90_000)) for seed in (1, 2)),),
    ],
)
def test_long_texts_take_bounded_time(old: str, new: str):
    with cpu_bound(0.75):
        found = compare_words(old, new)
    assert found.is_cut == (max(len(old), len(new)) > CHARS_MAX)
    assert found.parts
