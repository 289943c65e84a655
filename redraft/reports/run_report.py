"""What a run's report says, section by section."""

from collections import Counter
from collections.abc import Sequence

from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.domain.bulk.phrases import count, say_names, say_share
from redraft.domain.bulk.run_facts import Costs, Counts, HumanAgreement, RunReport
from redraft.domain.bulk.uplift import IterationYield
from redraft.domain.jobs.states import say_stop_reason
from redraft.reports import wording
from redraft.reports.model import Figure, Report, Section, Table
from redraft.reports.tables import RunFacts, RunTables
from redraft.reports.wording import DASH

_STATES = ("succeeded", "failed", "invalid", "canceled", "running", "queued")
_WITHOUT_VERDICT = ("invalid", "failed", "canceled", "running", "queued")
_LOWEST_SHOWN = 10
_BY_ROW = "by row"
_COLUMNS = (
    "New: accepted in it for the first time. Pass rate: accepted in it or before. Better, worse, change: its score "
    "against the best before. Each new: the cost for each newly accepted."
)


def stop_words(item: ItemOutcome) -> str:
    """Say why an item ended; nothing for one that has not ended."""
    return say_stop_reason(item.stop_reason, only_evaluates=item.only_evaluates) if item.stop_reason else ""


def run_report(tables: RunTables) -> Report:
    report = tables.report
    sections = (
        _loop(report),
        _iterations(report),
        _advice(report),
        _scores(report),
        _costs(report.costs, report.counts.accepted),
        _times(report),
        _items(tables),
        _lowest(tables),
        _errors(report),
        _people(report),
    )
    return Report(
        title=f"Report: {tables.facts.name}",
        facts=facts_of(tables.facts),
        figures=_headline(report),
        gates=tables.gates,
        notes=_notes(report, tables.facts.unpriced_models),
        sections=tuple(section for section in sections if section is not None),
    )


def facts_of(facts: RunFacts) -> tuple[tuple[str, str], ...]:
    """What names a run, for a list of names and values."""
    dataset = facts.dataset_name + (f" (version {facts.dataset_version[:12]})" if facts.dataset_version else "")
    return (
        ("Run", facts.id),
        ("Status", facts.status),
        ("Dataset", dataset),
        ("Model", wording.listed(facts.models)),
        ("Evaluator", wording.listed(facts.evaluator_models)),
        ("Threshold", _BY_ROW if facts.score_threshold is None else f"{facts.score_threshold:g}"),
        ("iter_max", _iter_max(facts)),
        ("Created", wording.moment(facts.created_at)),
        ("Finished", wording.moment(facts.finished_at)),
    )


def _iter_max(facts: RunFacts) -> str:
    if facts.iter_max is not None:
        return str(facts.iter_max)
    return _BY_ROW if facts.models else DASH


def _headline(report: RunReport) -> tuple[Figure, ...]:
    counts, mean, gain, costs = report.counts, report.final_score, report.uplift.gain, report.costs
    rate = report.pass_rate
    return (
        Figure(
            "Pass rate",
            wording.share(rate),
            f"95 % interval {wording.share_span(rate)}; {counts.accepted} of {count(counts.judged, 'item')} judged"
            if rate
            else "no answer has a verdict yet",
        ),
        Figure("Items counted", f"{counts.judged} of {counts.total}", _left_out(counts)),
        Figure(
            "Mean score",
            wording.score(mean.value) if mean else DASH,
            _sureness(wording.span(mean), is_missing=mean is None),
        ),
        Figure(
            "Gain by the loop",
            wording.change(gain.value) if gain else DASH,
            _sureness(wording.change_span(gain), is_missing=gain is None),
        ),
        Figure("Cost per accepted answer", _per_accepted(report), f"{_total(costs)} in all"),
    )


def _left_out(counts: Counts) -> str:
    """Who is in no rate and no score, and why."""
    deleted = {"failed": counts.deleted - counts.deleted_answers}
    kinds = [(getattr(counts, state) - deleted.get(state, 0), state) for state in _WITHOUT_VERDICT]
    kinds.append((counts.succeeded - counts.judged - counts.deleted_answers, "without a verdict"))
    kinds.append((counts.deleted, "deleted"))
    words = ", ".join(f"{number} {kind}" for number, kind in kinds if number)
    return f"left out: {words}" if words else "none is left out"


def _sureness(interval: str, *, is_missing: bool) -> str:
    if is_missing:
        return "no scores to tell from"
    return "no interval: only one row" if interval == DASH else f"95 % interval {interval}"


def _per_accepted(report: RunReport) -> str:
    return DASH if report.counts.accepted == 0 else wording.price(report.costs.per_accepted_usd)


def _total(costs: Costs) -> str:
    if costs.total_usd is not None:
        return wording.money(costs.total_usd)
    return f"{'unknown, ' if costs.unpriced else ''}at least {wording.money(costs.known_usd)}"


def _notes(report: RunReport, unpriced_models: Sequence[str]) -> tuple[str, ...]:
    counts = report.counts
    ended = counts.total - counts.queued - counts.running
    notes: list[str] = []
    if counts.total == 0:
        notes.append("This run has no items.")
    elif ended == 0:
        notes.append(f"Nothing has ended yet: {counts.running} running, {counts.queued} queued.")
    elif ended < counts.total:
        notes.append(f"This run has not ended: {ended} of {count(counts.total, 'item')} so far.")
    if ended and counts.judged == 0:
        notes.append("No answer has a verdict, so there is no pass rate and no score.")
    if counts.judged and report.final_score is None:
        notes.append("No returned answer has a score.")
    if report.final_score and report.final_score.low is None:
        notes.append("Only one row has a score: it says next to nothing of others.")
    return (*notes, *_gaps(report, unpriced_models))


def _gaps(report: RunReport, unpriced_models: Sequence[str]) -> list[str]:
    """What is not known any more, or never was."""
    counts, costs = report.counts, report.costs
    notes: list[str] = []
    if counts.deleted:
        what = "job of this run was" if counts.deleted == 1 else "jobs of this run were"
        notes.append(f"{counts.deleted} {what} deleted: what they came to and cost is in no figure of this report.")
    if costs.unpriced:
        notes.append(
            f"What {count(costs.unpriced, 'item')} cost is unknown, and so is what the run cost: "
            f"{_why_unpriced(unpriced_models)}"
        )
    return notes


def _why_unpriced(models: Sequence[str]) -> str:
    if models:
        return f"no price is known of {say_names(models)}. REDRAFT_PRICES sets prices, for calls to come."
    return "of some calls nobody knows what became of them."


def _items(tables_of: RunTables) -> Section:
    counts = tables_of.report.counts
    states = [(state, getattr(counts, state)) for state in _STATES]
    rows = tuple((state, wording.number(number)) for state, number in states if number)
    total = f"{count(counts.total, 'item')}, of {count(counts.rows, 'row')} of the dataset." if counts.total else ""
    tables = [Table("Items by state", ("State", "Items"), rows)] if rows else []
    if reasons := Counter(words for item in tables_of.items if (words := stop_words(item))):
        why = tuple((words, wording.number(number)) for words, number in reasons.most_common())
        tables.append(Table("Why they ended", ("Reason", "Items"), why))
    return Section("items", "Items", (total or "None.",), tuple(tables))


def _loop(report: RunReport) -> Section:
    uplift, judged, words = report.uplift, report.counts.judged, report.uplift.words
    tables: list[Table] = []
    if uplift.n < judged:
        which = f"the {count(uplift.n, 'item')} of {judged} whose first answer has a score, too"
        words = (f"Compared here: {which}; the mean score above is of all.", *words)
    if uplift.n:
        # The interval is of all that are judged
        span = wording.span(report.final_score) if uplift.n == judged else DASH
        scores = (
            ("First answer", wording.score(uplift.first), DASH),
            ("Returned answer", wording.score(uplift.returned), span),
            (
                "Difference",
                wording.change(uplift.gain.value if uplift.gain else None),
                wording.change_span(uplift.gain),
            ),
        )
        tables.append(Table("First answers against returned ones", ("", "Mean score", "95 % interval"), scores))
        parts = (("Helped", uplift.helped), ("Hurt", uplift.hurt), ("Unchanged", uplift.unchanged))
        rows = tuple(
            (name, wording.number(part.count), wording.share(part.share), wording.share_span(part.share))
            for name, part in parts
        )
        tables.append(Table("What became of the items", ("", "Items", "Share", "95 % interval"), rows))
    return Section("loop", "Did the loop pay?", words, tuple(tables))


def _iterations(report: RunReport) -> Section | None:
    yields = report.uplift.iterations
    if not yields:
        return None
    return Section("iterations", "What each iteration brought", (_COLUMNS,), (_passes(yields), _changes(yields)))


def _passes(yields: Sequence[IterationYield]) -> Table:
    rows = tuple(
        (
            str(each.number),
            wording.number(each.reached),
            wording.number(each.newly_accepted),
            wording.share(each.pass_rate),
            wording.share_span(each.pass_rate),
        )
        for each in yields
    )
    return Table("Accepted", ("Iteration", "Reached", "New", "Pass rate", "95 % interval"), rows)


def _changes(yields: Sequence[IterationYield]) -> Table:
    rows = tuple(
        (
            str(each.number),
            DASH if each.better is None else wording.number(each.better),
            DASH if each.worse is None else wording.number(each.worse),
            wording.change(each.mean_change),
            wording.money(each.cost_usd),
            wording.price(each.cost_per_accepted_usd) if each.newly_accepted else DASH,
        )
        for each in yields
    )
    return Table("Changes and costs", ("Iteration", "Better", "Worse", "Change", "Cost", "Each new"), rows)


def _advice(report: RunReport) -> Section:
    words = dict.fromkeys((report.iter_max_advice.words, report.threshold_advice.words))
    return Section("advice", "What to set", tuple(words))


def _scores(report: RunReport) -> Section | None:
    bins = list(zip(report.first_scores, report.final_scores, strict=True))
    if not any(first.count or final.count for first, final in bins):
        return None
    rows = tuple(
        (f"{first.low:.1f} to {first.high:.1f}", wording.number(first.count), wording.number(final.count))
        for first, final in bins
    )
    return Section("scores", "Scores", (), (Table("Items by score", ("Score", "First", "Returned"), rows),))


def _costs(costs: Costs, accepted: int) -> Section:
    rows = (
        ("Cost", _total(costs), wording.price(costs.per_accepted_usd) if accepted else DASH),
        ("Input tokens", wording.number(costs.input_tokens), wording.number(costs.input_tokens_per_accepted)),
        ("Output tokens", wording.number(costs.output_tokens), wording.number(costs.output_tokens_per_accepted)),
    )
    words = () if accepted else ("No answer was accepted, so there is no cost for each.",)
    return Section("costs", "Costs", words, (Table("Costs", ("", "In all", "Per accepted answer"), rows),))


def _times(report: RunReport) -> Section:
    found = report.latency
    if found is None:
        return Section("times", "Time", ("No item has succeeded: there is no time to tell.",))
    values = (found.p50, found.p90, found.p95, found.p99, found.longest)
    names = ("Half within", "90 % within", "95 % within", "99 % within", "Longest")
    rows = tuple((name, wording.seconds(value)) for name, value in zip(names, values, strict=True))
    table = Table("Time", ("", "From start to end"), rows)
    return Section("times", "Time", (f"Of {count(found.n, 'item')} that succeeded.",), (table,))


def _lowest(tables: RunTables) -> Section | None:
    """The answers to look at first."""
    missed = [item for item in tables.items if item.has_verdict and not item.is_accepted]
    if not missed:
        return None
    worst = sorted(missed, key=lambda item: (item.final_score or 0, item.custom_id, item.repeat))[:_LOWEST_SHOWN]
    rows = tuple(
        (
            item.custom_id if item.repeat == 1 else f"{item.custom_id} (repeat {item.repeat})",
            wording.score(item.first_score),
            wording.score(item.final_score),
            str(item.iterations),
            stop_words(item),
        )
        for item in worst
    )
    headers = ("custom_id", "First score", "Returned score", "Iterations", "Why it ended")
    words = f"Of {count(len(missed), 'item')} judged and not accepted."
    return Section("lowest", "Lowest scores", (words,), (Table("Lowest scores", headers, rows, numeric=False),))


def _errors(report: RunReport) -> Section:
    if not report.errors:
        return Section("errors", "Errors", ("None.",))
    rows = tuple(
        (group.code, wording.number(group.count), group.example_id, group.example_words or DASH)
        for group in report.errors
    )
    headers = ("Code", "Items", "For example", "What it says")
    return Section("errors", "Errors", (), (Table("Errors by code", headers, rows, numeric=False),))


def _people(report: RunReport) -> Section:
    if report.agreement is None:
        words = "No person has judged an answer of this run: the dataset has no human_score and no human_pass."
        return Section("people", "Agreement with people", (words,))
    return _agreement(report.agreement)


def _agreement(found: HumanAgreement) -> Section:
    passes, words, tables = found.passes, list[str](), list[Table]()
    if passes.n:
        words.append(f"Evaluator and people agree on {say_share(passes.agreement)} of {count(passes.n, 'item')}.")
        words.append(_say_kappa(found))
        rows = (
            ("Evaluator accepts", str(passes.both_pass), str(passes.only_evaluator_passes)),
            ("Evaluator does not", str(passes.only_person_passes), str(passes.both_fail)),
        )
        tables.append(Table("Who accepts what", ("", "Person accepts", "Person does not"), rows))
    if found.scores:
        rows = (
            (
                "Mean absolute error",
                wording.score(found.error.value if found.error else None),
                wording.span(found.error),
            ),
            (
                "Evaluator less person",
                wording.change(found.bias.value if found.bias else None),
                wording.change_span(found.bias),
            ),
            ("Rank correlation", wording.score(found.order.value if found.order else None), wording.span(found.order)),
        )
        tables.append(Table(f"Scores of {count(found.scores, 'item')}", ("", "Value", "95 % interval"), rows))
        if found.error is None:
            words.append("People score on another scale than 0 to 1: only the order can be compared.")
    return Section("people", "Agreement with people", tuple(words), tuple(tables))


def _say_kappa(found: HumanAgreement) -> str:
    kappa = found.passes.kappa
    if kappa is None:
        return "Cohen's kappa cannot be told: one of them says the same of all."
    interval = f"{wording.score(kappa.low)} to {wording.score(kappa.high)}"
    return f"Cohen's kappa, agreement beyond chance: {wording.score(kappa.value)} (95 % interval {interval})."
