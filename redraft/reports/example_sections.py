"""Builds report sections with examples (question, answers and verdicts of a row), and with the repeats of rows."""

from collections.abc import Sequence

from redraft.domain.bulk.examples import Attempt, Example, Excerpt, Gap, losses, lowest_scores
from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.domain.bulk.phrases import count, format_share
from redraft.domain.bulk.repeats import Repeats
from redraft.domain.jobs.states import describe_stop_reason
from redraft.reports import wording
from redraft.reports.model import Passage, Section, ShownAttempt, ShownExample, Table
from redraft.reports.tables import RunTables
from redraft.reports.wording import number

_MORE_LISTED = 10


def stop_words(item: ItemOutcome | Example) -> str:
    """Say why an item ended. The text is empty if the item has not ended."""
    return describe_stop_reason(item.stop_reason, only_evaluates=item.only_evaluates) if item.stop_reason else ""


def item_name(item: ItemOutcome | Example) -> str:
    return item.custom_id if item.repeat == 1 else f"{item.custom_id} (repeat {item.repeat})"


def lowest(tables: RunTables) -> Section | None:
    """Show the answers with the lowest scores, because users should read these first."""
    missed = sum(item.has_verdict and not item.is_accepted for item in tables.items)
    if not missed:
        return None
    examples = tables.examples.lowest
    shown = {example.custom_id for example in examples}
    more = [item for item in lowest_scores(tables.items) if item.custom_id not in shown][:_MORE_LISTED]
    listed = len(examples) + len(more)
    words = f"{count(missed, 'item')} evaluated and not accepted. The lowest scores come first, and equal scores by id."
    if listed < missed:
        words += f" {listed} of them are listed."
    return Section("lowest", "Rows to look at first", (words,), _table_of(more), _shown(examples))


def _table_of(items: Sequence[ItemOutcome]) -> tuple[Table, ...]:
    rows = tuple(
        (
            item_name(item),
            wording.score(item.first_score),
            wording.score(item.final_score),
            str(item.iterations),
            stop_words(item),
        )
        for item in items
    )
    headers = ("custom_id", "First score", "Returned score", "Iterations", "Why it ended")
    return (Table("The next lowest scores", headers, rows, numeric=False),) if rows else ()


def helped(tables: RunTables) -> Section | None:
    examples = tables.examples.helped
    if not examples:
        return None
    words = "The largest gains: the first answer beside the returned one."
    return Section("helped", "Where iterating helped most", (words,), examples=_shown(examples))


def hurt(tables: RunTables) -> Section | None:
    examples = tables.examples.hurt
    if not examples:
        return None
    words = "Answers that scored lower than an earlier one. If none is marked as returned, a later one was."
    if (rows := len(losses(tables.items))) > len(examples):
        words += f" {len(examples)} of {rows} rows are shown."
    return Section("hurt", "Where a revision was worse", (words,), examples=_shown(examples))


def repeats(found: Repeats | None) -> Section | None:
    if found is None:
        return None
    chances = tuple(
        (
            str(each.k),
            number(each.rows),
            wording.share(each.pass_at_k),
            wording.share_span(each.pass_at_k),
            wording.share(each.pass_hat_k),
            wording.share_span(each.pass_hat_k),
        )
        for each in found.by_k
    )
    headers = ("k", "Rows", "pass@k", "95 % interval", "pass^k", "95 % interval")
    tables = [Table("Chance to pass in at least one (pass@k) and in all (pass^k) of k repeats", headers, chances)]
    flaky = tuple(
        (
            row.custom_id,
            f"{row.accepted} of {row.evaluated}",
            wording.score(row.lowest),
            wording.score(row.highest),
        )
        for row in found.flaky_rows
    )
    if flaky:
        headers = ("custom_id", "Accepted", "Lowest score", "Highest score")
        tables.append(Table("Flaky rows, nearest to half accepted first", headers, flaky))
    words = (
        f"{found.flaky} of {count(found.rows, 'row')} with two or more evaluated repeats "
        f"{'is' if found.flaky == 1 else 'are'} flaky: some repeats are accepted and others are not; "
        f"{format_share(found.flaky_share)}."
    )
    return Section("repeats", "Repeats", (words,), tuple(tables))


def _shown(examples: Sequence[Example]) -> tuple[ShownExample, ...]:
    return tuple(
        ShownExample(
            name=item_name(example),
            detail=f"Ended: {stop_words(example)}." if example.stop_reason else "",
            question=_passage("Question", example.question),
            attempts=tuple(_attempt(attempt, len(example.attempts)) for attempt in example.attempts),
        )
        for example in examples
    )


def _attempt(attempt: Attempt, shown: int) -> ShownAttempt:
    verdict = f"score {wording.score(attempt.score)}, {'accepted' if attempt.is_accepted else 'not accepted'}"
    name = f"Iteration {attempt.iteration}{', returned' if attempt.is_returned and shown > 1 else ''}"
    gaps = [_gap(gap) for gap in attempt.gaps]
    if attempt.gaps_left_out:
        gaps.append(f"… and {attempt.gaps_left_out} more")
    reasoning = _passage("Reasoning", attempt.reasoning) if attempt.reasoning.text else None
    return ShownAttempt(f"{name}: {verdict}", _passage("Answer", attempt.answer), reasoning, tuple(gaps))


def _gap(gap: Gap) -> str:
    parts = [_cut(part) for part in (gap.criterion, gap.words) if part and part.text]
    return ": ".join(parts)


def _cut(text: Excerpt) -> str:
    return f"{text.text}…" if text.is_cut else text.text


def _passage(name: str, text: Excerpt) -> Passage:
    note = f"The first {len(text.text):,} of {text.length:,} characters." if text.is_cut else ""
    return Passage(name, text.text, note)
