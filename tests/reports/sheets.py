"""Sheets of made-up runs, some of them hostile."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from redraft.domain.bulk.comparison import compare
from redraft.domain.bulk.examples import Attempt, Example, Examples, Excerpt, Gap
from redraft.domain.bulk.gates import check_gates
from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.domain.bulk.run_statistics import report_on
from redraft.reports.tables import ComparisonTables, RunFacts, RunTables
from tests.domain.bulk.outcomes import ITEMS, THRESHOLD, failed, looped, many

HOSTILE = "<script>alert('x')</script>|`a`\"&amp; @all #1 https://evil.example \x1b[31m\u202egpj.exe\x00\ud800"

ITEMS_OF_A_RUN = [
    *many("easy-", 20, 0.9),
    *many("slow-", 15, 0.5, 0.85),
    *many("hard-", 10, 0.5, 0.6, 0.7),
    failed("late", error_words="It took too long."),
    ItemOutcome("bad", status="invalid", error_code="invalid_row", error_words="Line 9: instruct is missing."),
]


def facts(**more: Any) -> RunFacts:
    known: dict[str, Any] = {
        "id": "run_1",
        "name": "Nightly",
        "status": "succeeded",
        "dataset_name": "faq.jsonl",
        "dataset_version": "9f86d081884c7d659a2f",
        "created_at": datetime(2026, 11, 28, 1, 2, 3, tzinfo=UTC),
        "finished_at": datetime(2026, 11, 28, 4, 5, 6, tzinfo=UTC),
        "models": ("openai:gpt-5-mini",),
        "evaluator_models": ("anthropic:claude-haiku-5",),
        "score_threshold": THRESHOLD,
        "iter_max": 3,
        "cost_usd": Decimal("1.50"),
    }
    return RunFacts(**(known | more))


def run_tables(items: Sequence[ItemOutcome] = ITEMS_OF_A_RUN, **more: Any) -> RunTables:
    gates = check_gates(items, min_pass_rate=0.9)
    return RunTables(facts(**more), report_on(items, threshold=THRESHOLD), gates, items)


def comparison_tables(
    old: Sequence[ItemOutcome], new: Sequence[ItemOutcome], *, name: str = "Nightly", **more: Any
) -> ComparisonTables:
    comparison = compare(old, new, name=name)
    gates = check_gates(new, comparison, min_pass_rate=0.5, fail_on_regression=True)
    return ComparisonTables(facts(name=name), facts(**({"id": "run_2", "name": "Tried"} | more)), comparison, gates)


def attempt(iteration: int, score: float, answer: str = "An answer.", **more: Any) -> Attempt:
    known: dict[str, Any] = {
        "is_returned": False,
        "is_accepted": score >= THRESHOLD,
        "reasoning": Excerpt("It names the river.", 19),
        "gaps": (Gap(Excerpt("No length.", 10), Excerpt("Gives the length", 16)),),
    }
    return Attempt(iteration=iteration, score=score, answer=Excerpt(answer[:40], len(answer)), **(known | more))


def example(name: str, *attempts: Attempt, question: str = "Which river?") -> Example:
    return Example(name, 1, "job_1", "iteration_limit", False, Excerpt(question, len(question)), attempts)


EXAMPLES = Examples(
    lowest=(example("hard-0000", attempt(1, 0.7, is_returned=True)),),
    helped=(example("slow-0000", attempt(1, 0.5, "First."), attempt(2, 0.85, "Second.", is_returned=True)),),
    hurt=(example("hard-0001", attempt(1, 0.5, is_returned=True), attempt(2, 0.4)),),
)


def hostile_sheet() -> RunTables:
    items = [
        looped(HOSTILE, 0.5, 0.6, stop_reason=HOSTILE),
        failed(f"{HOSTILE}2", HOSTILE, error_words=HOSTILE),
        failed("plain", "refused", error_words=HOSTILE),
    ]
    excerpt = Excerpt(HOSTILE, 2000)
    texts = attempt(1, 0.5, reasoning=excerpt, answer=HOSTILE * 2, gaps=(Gap(excerpt, excerpt),), gaps_left_out=3)
    shown = (example(f"{HOSTILE}3", texts, texts, question=f"{HOSTILE}\n\n    {HOSTILE}\n# - {HOSTILE}"),)
    sheet = run_tables(items, name=HOSTILE, dataset_name=HOSTILE, models=(HOSTILE,), status=HOSTILE, id=HOSTILE)
    return replace(sheet, examples=Examples(shown, shown, shown))


def hostile_comparison() -> ComparisonTables:
    names = [f"{HOSTILE}{number}" for number in range(3)]
    old = [looped(name, 0.9) for name in names]
    return comparison_tables(old, [looped(names[0], 0.5), failed(names[1])], name=HOSTILE, dataset_name=HOSTILE)


def _renamed(item: ItemOutcome, name: str, words: str | None) -> ItemOutcome:
    return replace(item, custom_id=name, error_words=words)


_TEXTS = st.text(max_size=12) | st.sampled_from([HOSTILE, "<b>", "|", "&lt;", "]]>", "\ufffe"])
HOSTILE_RUNS = st.lists(st.builds(_renamed, ITEMS, _TEXTS, st.none() | _TEXTS), max_size=12)
