"""Builds the report of a comparison, section by section. It never reports an insignificant difference as equality."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, TypeGuard, cast

from pydantic_core import to_json

from redraft.domain.bulk.comparison import Comparison
from redraft.domain.bulk.phrases import count, format_p
from redraft.domain.statistics.estimates import Mean
from redraft.domain.text.control_characters import one_line
from redraft.reports import wording
from redraft.reports.model import Figure, Report, Section, Table
from redraft.reports.run_report import facts_of, run_report
from redraft.reports.tables import AnyTables, ComparisonTables, RunFacts, RunTables
from redraft.reports.wording import DASH

_NAMES_MAX = 50
_NAMES_CHARS = 1500
_SETTING_CHARS = 120
# If runs differ in one of these fields, their answers are evaluated by different criteria
_CRITERIA = frozenset({"eval_crit", "evaluation", "profile", "reference", "rubric"})


def report_of(tables: AnyTables) -> Report:
    """Build the report of a run or of a comparison, which every format shows."""
    if not isinstance(tables, RunTables):
        return comparison_report(tables)
    report = run_report(tables)
    return replace(report, sections=(_section(tables.comparison), *report.sections)) if tables.comparison else report


def _section(tables: ComparisonTables) -> Section:
    """Return a whole comparison as a section of the report of the new run."""
    found = comparison_report(tables)
    rows = tuple((each.name, each.value, each.detail) for each in found.figures)
    figures = Table("Figures", ("", "Difference", "Details"), rows, numeric=False)
    return Section(
        "comparison",
        f"Comparison with the baseline {tables.baseline.name}",
        (*found.notes, *(sentence for section in found.sections for sentence in section.sentences)),
        (figures, *(table for section in found.sections for table in section.tables)),
    )


def comparison_report(tables: ComparisonTables) -> Report:
    found = tables.comparison
    return Report(
        title=f"Comparison: {tables.new.name} against {tables.baseline.name}",
        facts=(("New run", tables.new.id), ("Baseline", tables.baseline.id)),
        figures=_headline(found),
        gates=tables.gates,
        notes=notes_of(tables.baseline, tables.new),
        sections=(
            # `_flips` and the section of left-out rows show the remaining sentences
            Section("differences", "Differences", found.words[: 1 if found.mcnemar_p is None else 2]),
            _flips(found),
            _left_out(found),
            Section("sides", "The two runs", (), (sides_of(tables.baseline, tables.new),)),
        ),
    )


def _headline(found: Comparison) -> tuple[Figure, ...]:
    p = found.mcnemar_p
    has_scores = found.wins + found.ties + found.losses > 0
    differences = ("Pass rate", found.pass_rate, wording.points), ("Mean score", found.score, wording.change)
    return (
        *(_difference(*each) for each in differences),
        Figure(
            "Wins, ties, losses",
            f"{found.wins} / {found.ties} / {found.losses}",
            "rows, by score" if has_scores else "no row has a score in both runs",
        ),
        Figure(
            "Flips",
            f"+{len(found.newly_passing)} / -{len(found.newly_failing)}",
            "no row to compare" if p is None else f"newly passing, newly failing; McNemar's exact test: {format_p(p)}",
        ),
    )


def _difference(name: str, difference: Mean | None, written: Callable[[float | None], str]) -> Figure:
    name, value, span = wording.row(name, difference, written)
    return Figure(
        name, value, wording.paired_interval(difference, span) if difference else "no row with a verdict in both runs"
    )


def notes_of(*runs: RunFacts) -> tuple[str, ...]:
    """Return sentences about the differences of two or more runs that make their comparison less certain."""
    notes = [f"The run {facts.name} is {facts.status}." for facts in runs if facts.status != "succeeded"]
    if len({facts.score_threshold for facts in runs}) > 1:
        notes.append(
            "The runs have different thresholds: an answer may pass in one and fail in the other for that reason alone."
        )
    if len({facts.evaluator_models for facts in runs}) > 1:
        notes.append(
            "The runs have different evaluators: a difference may come from the evaluators, not from the answers."
        )
    if criteria := [name for name in _differing(runs) if name.partition(".")[2] in _CRITERIA]:
        notes.append(
            f"The runs differ in {', '.join(criteria)}: a difference may come from the criteria, not from the answers."
        )
    if len({facts.dataset_version for facts in runs}) > 1:
        notes.append("The datasets differ: rows are paired by custom_id, even if their contents differ.")
    return tuple(notes)


def _flips(found: Comparison) -> Section:
    flips = (("Newly failing", found.newly_failing), ("Newly passing", found.newly_passing))
    if not any(names for _, names in flips):
        return Section("flips", "Flips", ("No row passes in one run only.",))
    return Section("flips", "Flips", (), (_names("Rows that pass in one run only", flips),))


def _left_out(found: Comparison) -> Section:
    verdicts = found.verdicts
    kinds = (
        ("With a verdict in the baseline only", verdicts.lost),
        ("With a verdict in the new run only", verdicts.won),
        ("Without a verdict in either run", verdicts.neither),
        ("In the baseline only", found.only_in_baseline),
        ("In the new run only", found.only_in_new),
    )
    number = verdicts.repeats_without
    repeats = (f"{count(number, 'repeat')} of compared rows without a verdict.",) if number else ()
    if not any(names for _, names in kinds):
        return Section("left_out", "Rows left out", repeats or ("All rows of both runs are compared.",))
    return Section("left_out", "Rows left out", repeats, (_names("Rows left out", kinds),))


def _names(caption: str, kinds: Sequence[tuple[str, tuple[str, ...]]]) -> Table:
    rows = tuple((what, str(len(names)), _some(names)) for what, names in kinds if names)
    return Table(caption, ("", "Rows", "custom_id"), rows, numeric=False)


def _some(names: Sequence[str]) -> str:
    """Join the names that fit into a cell, and count the others."""
    shown: list[str] = []
    for name in names[:_NAMES_MAX]:
        shown.append(one_line(name))
        if sum(map(len, shown)) > _NAMES_CHARS:
            break
    left = len(names) - len(shown)
    return ", ".join(shown) + (f" and {left} more" if left else "")


def sides_of(*runs: RunFacts) -> Table:
    """Return a table with the settings of two or more runs side by side. The first run is the baseline."""
    facts = [dict(facts_of(run)) for run in runs]
    rows = [("Name", *(run.name for run in runs))]
    # Runs by batches have more facts than others
    rows += [(name, *(each.get(name, DASH) for each in facts)) for name in dict.fromkeys(chain(*facts))]
    rows += [(name, *_settings(name, runs)) for name in _differing(runs)]
    rows.append(("Cost", *map(_cost, runs)))
    names = ["New run"] if len(runs) == 2 else [f"Run {number}" for number in range(1, len(runs))]
    return Table("Settings of the runs", ("", "Baseline", *names), tuple(rows), numeric=False)


def _differing(runs: Sequence[RunFacts]) -> list[str]:
    """Return the names of the defaults and overrides that are not the same in all runs."""
    names = dict.fromkeys(name for run in runs for name in run.settings)
    return [name for name in names if any(run.settings.get(name) != runs[0].settings.get(name) for run in runs)]


def _settings(name: str, runs: Sequence[RunFacts]) -> list[str]:
    """Describe a setting of each run: of two runs by the differences from the other, of more from the baseline."""
    first, *more = [run.settings.get(name) for run in runs]
    if len(more) == 1:
        return [_setting(first, more[0], "the other run"), _setting(more[0], first, "the other run")]
    return [_setting(value, first, "the baseline") for value in (first, *more)]


def _setting(value: Any, other: Any, whose: str) -> str:
    """Describe a setting of one run by its differences from that of another run, which `whose` names."""
    if value is None:
        return DASH
    if _is_rubric(value):
        return one_line(_rubric(value, other if _is_rubric(other) else (), whose), _SETTING_CHARS)
    return one_line(value if isinstance(value, str) else to_json(value).decode(), _SETTING_CHARS)


def _is_rubric(value: Any) -> TypeGuard[Sequence[Mapping[str, Any]]]:
    entries = cast("list[Any]", value) if isinstance(value, list) else []
    return bool(entries) and all(isinstance(each, dict) and "id" in each for each in entries)


def _rubric(criteria: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], whose: str) -> str:
    known = {each["id"]: each for each in others}
    added = [each["id"] for each in criteria if each["id"] not in known]
    changed = [each["id"] for each in criteria if known.get(each["id"], each) != each]
    kinds = ((f"not in {whose}", added), (f"different in {whose}", changed))
    differences = [f"{words}: {', '.join(names)}" for words, names in kinds if names]
    if not differences and len(criteria) == len(others) and criteria != others:
        differences = [f"in another order than in {whose}"]
    return "; ".join(["1 criterion" if len(criteria) == 1 else f"{len(criteria)} criteria", *differences])


def _cost(facts: RunFacts) -> str:
    cost = wording.money(facts.cost_usd)
    # The sum lacks the costs of deleted jobs
    return f"at least {cost}" if facts.deleted_jobs and facts.cost_usd is not None else cost
