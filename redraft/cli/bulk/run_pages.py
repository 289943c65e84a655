"""Prints runs and their items on stdout, as tables and pages."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from redraft.cli import output
from redraft.cli.bulk.run_progress import done, words_of
from redraft.cli.output import NONE
from redraft.domain.bulk.outcomes import item_outcome
from redraft.domain.bulk.phrases import count, format_score, percent
from redraft.domain.statistics.estimates import share
from redraft.operations.bulk.run_resources import Run


def show_runs(page: Sequence[Run]) -> None:
    output.show_list(
        page,
        {
            "status": lambda run: status(run.status, run.stop_reason),
            "done": lambda run: f"{done(run):,}/{run.counts.total:,}",
            "accepted": _accepted,
            "failed or invalid": lambda run: f"{run.counts.failed + run.counts.invalid:,}",
            "cost": lambda run: NONE if run.usage.cost_usd is None else f"${run.usage.cost_usd}",
            "age": lambda run: output.age(run.created_at),
            "name": lambda run: output.one_line(run.name, 200),
        },
        ("age", "failed or invalid", "cost"),
    )


def status(state: str, stop_reason: str | None = None) -> Text:
    """Return a status with its sign. If a run was stopped by its budget or an error, add the reason."""
    why = f" ({stop_reason.replace('_', ' ')})" if stop_reason in {"budget_exhausted", "error"} else ""
    return output.sign_of(state, f"{state}{why}")


def _accepted(run: Run) -> str:
    rate = share(run.counts.accepted, run.counts.succeeded)
    return NONE if rate is None else percent(rate.value)


def show_run(run: Run) -> None:
    counts = run.counts
    facts: list[tuple[str, Text | str]] = [
        ("run", run.id),
        ("name", output.one_line(run.name, 200)),
        ("dataset", run.dataset_id),
        ("status", status(run.status, run.stop_reason)),
        ("error", "" if run.error is None else f"{count(run.error.items, 'item')} not started: {run.error.detail}"),
        ("items", words_of(run, None)),
        ("counts", ", ".join(f"{number:,} {name}" for name, number in counts.model_dump().items() if number)),
        ("repeat", f"{run.repeat}" if run.repeat > 1 else ""),
        ("in flight", f"at most {run.max_in_flight:,}"),
        ("calls", f"{run.usage.calls:,}"),
        ("tokens", output.tokens_text(run.usage)),
        ("defaults", _fields(run.defaults)),
        ("overrides", _fields(run.overrides)),
        ("began", f"{output.age(run.created_at)} ago"),
    ]
    output.show_facts(facts, 10)


def _fields(fields: Mapping[str, Any]) -> str:
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in fields.items()
    }
    return ", ".join(f"{name} = {output.one_line(text, 60)}" for name, text in texts.items())


def show_items(items: Sequence[Mapping[str, Any]]) -> None:
    if not items:
        return
    output.show("")
    output.show_table(
        items,
        {
            "item": lambda item: f"{item['number']}",
            "custom_id": lambda item: output.one_line(item["custom_id"], 40),
            "status": _item_status,
            "score": lambda item: NONE if item["final_score"] is None else format_score(item["final_score"]),
            "iterations": lambda item: f"{item['iterations']}",
            "outcome": _outcome,
        },
        ("iterations", "item"),
    )


def _item_status(item: Mapping[str, Any]) -> Text:
    is_evaluated = item["final_score"] is not None
    words = item_outcome(item["status"], is_accepted=bool(item["success"]), is_evaluated=is_evaluated).replace("_", " ")
    return output.sign_of(words, words)


def _outcome(item: Mapping[str, Any]) -> str:
    if item["error"]:
        line = f"line {item['line']}: " if item["status"] == "invalid" else ""
        return line + output.one_line(item["error"], 200)
    return output.one_line(item["final_answer"] or item["instruct"] or "", 200)
