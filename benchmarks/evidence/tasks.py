"""168 tasks in two halves, whose answers are graded by code. Only the first half is used to choose changes of Redraft.

Each task is a row of a dataset. Its instruction contains everything that its checks require.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Half = Literal["tuning", "held_out"]
Criterion = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """A task and its checks, which are criteria without ids. `brief` is the instruction without the requirements."""

    id: str
    family: str
    half: Half
    instruct: str
    brief: str
    checks: tuple[Criterion, ...]
    sources: tuple[str, ...] = ()

    def row(self) -> dict[str, Any]:
        """Return the task as a row of a dataset, with its checks as the rubric."""
        rubric = [{"id": f"c{number}", **each} for number, each in enumerate(self.checks, 1)]
        row: dict[str, Any] = {"custom_id": self.id, "instruct": self.instruct, "rubric": rubric}
        if self.sources:
            row["sources"] = [{"content": text} for text in self.sources]
        return row


def _check(text: str, kind: str, value: Any = None, *, is_hidden: bool = False, **fields: Any) -> Criterion:
    given = {} if value is None else {"value": value}
    return {"kind": "check", "text": text, "hidden": is_hidden, "check": {"kind": kind, **given, **fields}}


# Checks that contain the right answer are hidden, because their feedback would tell the generator the answer
def _right(text: str, kind: str, value: str, **fields: Any) -> Criterion:
    return _check(text, kind, value, is_hidden=True, **fields)


_Draft = tuple[str, str, list[Criterion], list[str]]

_MATERIAL: dict[str, list[Any]] = json.loads((Path(__file__).parent / "material.json").read_text("utf-8"))


def _lengths() -> Iterator[_Draft]:
    for number, subject in enumerate(_MATERIAL["subjects"]):
        low, high = [(10, 20), (15, 25), (20, 30), (25, 40), (30, 50), (40, 60), (5, 12)][number % 7]
        yield (
            f"Describe {subject} in {low} to {high} words. Write plain sentences.",
            f"Describe {subject}.",
            [
                _check(f"It has at least {low} words", "min_words", low),
                _check(f"It has at most {high} words", "max_words", high),
                _check("It has no list", "bullets", 0),
            ],
            [],
        )


def _lists() -> Iterator[_Draft]:
    for number, name in enumerate(_MATERIAL["things"]):
        count = [3, 4, 5, 6][number % 4]
        yield (
            f'List exactly {count} {name}, each on a line of its own that begins with "- ". Write nothing else.',
            f"List some {name}.",
            [
                _check(f"It has exactly {count} list items", "bullets", count),
                _check("It has no other lines", "lines", count),
                _check(f"It has at most {count * 4} words", "max_words", count * 4),
            ],
            [],
        )


def _words() -> Iterator[_Draft]:
    for first, second, forbidden in _MATERIAL["words"]:
        yield (
            (
                f'Write one sentence with the words "{first}" and "{second}". Do not use the word "{forbidden}". '
                "Use at most 25 words."
            ),
            f"Write a sentence about a {first} and a {second}.",
            [
                _check(f'It has the words "{first}" and "{second}"', "contains_all", [first, second], ignore_case=True),
                _check(f'It does not have the word "{forbidden}"', "not_regex", rf"\b{forbidden}\b", ignore_case=True),
                _check("It has at most 25 words", "max_words", 25),
                _check("It is one line", "lines", 1),
            ],
            [],
        )


def _orders() -> Iterator[_Draft]:
    for given in _MATERIAL["words_to_sort"]:
        right = sorted(given)
        yield (
            f"Put these words into alphabetical order: {', '.join(given)}. Write only the words, separated by commas.",
            f"Put these words into an order: {', '.join(given)}.",
            [
                _right("The words are in alphabetical order", "regex", r"(?i)^\W*" + r"\W+".join(right) + r"\W*$"),
                _check("It has three words", "max_words", 3),
                _check("It is one line", "lines", 1),
            ],
            [],
        )
    for given in _MATERIAL["numbers_to_sort"]:
        right = sorted(given, key=int)
        yield (
            (
                f"Sort these numbers from the smallest to the largest: {', '.join(given)}. Write only the numbers, "
                "separated by commas."
            ),
            f"Put these numbers into an order: {', '.join(given)}.",
            [
                _right("The numbers are sorted", "regex", r"^\D*" + r"\D+".join(right) + r"\D*$"),
                _check("It has three numbers and no words", "max_words", 3),
                _check("It is one line", "lines", 1),
            ],
            [],
        )


def _languages() -> Iterator[_Draft]:
    for topic in _MATERIAL["topics"]:
        for name, code in _MATERIAL["languages"]:
            yield (
                f"Write two or three sentences in {name} about {topic}. Use at most 50 words.",
                f"Write something about {topic}.",
                [
                    _check(f"It is in {name}", "language", code),
                    _check("It has at least 8 words", "min_words", 8),
                    _check("It has at most 50 words", "max_words", 50),
                ],
                [],
            )


def _arithmetic() -> Iterator[_Draft]:
    for question, right in _MATERIAL["questions"]:
        number, unit = right.split()
        yield (
            f'{question} End with a line "Answer: " and the number with its unit ({unit}). Use at most 40 words.',
            question,
            [
                _right(
                    "The last line has the right number and unit",
                    "regex",
                    rf"Answer: {number.replace('.', '[.]')} ?{unit}\W*$",
                ),
                _check("It has at most 40 words", "max_words", 40),
            ],
            [],
        )


def _extraction() -> Iterator[_Draft]:
    distraction = "The visitors of the region praise its food and its quiet roads."
    for number, (fact, question, right) in enumerate(_MATERIAL["facts"]):
        place = 1 + number % 2
        yield (
            f"{question} Answer in one short sentence and cite the source.",
            question,
            [
                _right(f'It says "{right}"', "contains", right, ignore_case=True),
                _check(f"It cites source {place}", "regex", rf"\[Source {place}\]"),
                _check("It has at most 25 words", "max_words", 25),
            ],
            [fact, distraction] if place == 1 else [distraction, fact],
        )


def _json() -> Iterator[_Draft]:
    for name, age, city in _MATERIAL["people"]:
        schema = {
            "type": "object",
            "properties": {"name": {"const": name}, "age": {"const": age}, "city": {"const": city}},
            "required": ["name", "age", "city"],
            "additionalProperties": False,
        }
        yield (
            (
                f"{name} is {age} years old and lives in {city}. Write this as one JSON object with the keys "
                '"name", "age" (a number) and "city". Write nothing else.'
            ),
            f"{name} is {age} years old and lives in {city}. Write this in another form.",
            [
                _check("It is JSON and nothing else", "is_json"),
                _check(f"The object has the name {name}, the age {age} and the city {city}", "json_schema", schema),
            ],
            [],
        )


_FAMILIES = {
    "lengths": _lengths,
    "lists": _lists,
    "words": _words,
    "orders": _orders,
    "languages": _languages,
    "arithmetic": _arithmetic,
    "extraction": _extraction,
    "json": _json,
}


def tasks(half: Half) -> list[Task]:
    """Return the tasks of one half: every second task of each family."""
    made: list[Task] = []
    for family, drafts in _FAMILIES.items():
        for number, (instruct, brief, checks, sources) in enumerate(drafts()):
            belongs: Half = "tuning" if number % 2 == 0 else "held_out"
            task_id = f"{family}-{number + 1}"
            made.append(Task(task_id, family, belongs, instruct, brief, tuple(checks), tuple(sources)))
    return [task for task in made if task.half == half]
