"""Builds the report of a run, section by section."""

from collections import Counter
from collections.abc import Mapping, Sequence

from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.domain.bulk.phrases import count, format_names, format_share
from redraft.domain.bulk.run_statistics import Costs, Counts, CriterionRate, HumanAgreement, RunReport
from redraft.domain.bulk.uplift import IterationYield
from redraft.reports import example_sections, wording
from redraft.reports.example_sections import stop_words
from redraft.reports.model import Figure, Report, Section, Table
from redraft.reports.tables import RunFacts, RunTables
from redraft.reports.wording import DASH, number

_STATES = ("succeeded", "invalid", "failed", "canceled", "running", "queued")
_CRITERIA_SHOWN = 20
_ACCEPTED_SHOWN = 10
_BY_ROW = "by row"
_INTERVAL = "95 % interval"
_COLUMNS = (
    "Evaluated: reached it and got a score in it. New: accepted in it for the first time. Pass rate: accepted in it or "
    "before. Better, worse, change: its score compared with the best score before. Each new: the cost of "
    "each newly accepted answer."
)

_RATINGS = "The page Ratings, Agreement and `redraft calibration` compare ratings with the verdicts of each evaluator."
_RATED = {"agree": "agree", "disagree": "disagree", "unsure": "cannot tell"}


def run_report(tables: RunTables) -> Report:
    report = tables.report
    sections = (
        _loop(report),
        _iterations(report.uplift.iterations),
        _criteria(report.criteria),
        _accepted_without(tables.items),
        example_sections.lowest(tables),
        example_sections.helped(tables),
        example_sections.hurt(tables),
        example_sections.repeats(report.repeats),
        _advice(report),
        _scores(report),
        _costs(report.costs, report.counts.accepted),
        _times(report),
        _items(tables),
        _errors(report),
        _agreement(report.agreement, tables.facts.ratings),
    )
    return Report(
        title=f"Report: {tables.facts.name}",
        facts=facts_of(tables.facts),
        figures=_headline(report, tables.facts.unpriced_models),
        gates=tables.gates,
        notes=(
            *_notes(report),
            *_gaps(report, tables.facts.unpriced_models),
            *tables.facts.evaluator_warnings,
        ),
        sections=tuple(section for section in sections if section is not None),
    )


def facts_of(facts: RunFacts) -> tuple[tuple[str, str], ...]:
    """Return pairs of name and value that identify a run."""
    version = f" (version {facts.dataset_version[:12]})" if facts.dataset_version else ""
    # A run without a generator only evaluates, so it has no limit of iterations
    iter_max = _BY_ROW if facts.models else DASH
    return (
        ("Run", facts.id),
        ("Status", facts.status),
        ("Dataset", facts.dataset_name + version),
        ("Model", wording.listed(facts.models)),
        ("Evaluator", "checks only" if facts.has_only_checks else wording.listed(facts.evaluator_models)),
        ("Threshold", _BY_ROW if facts.score_threshold is None else f"{facts.score_threshold:g}"),
        ("iter_max", iter_max if facts.iter_max is None else str(facts.iter_max)),
        ("Created", wording.moment(facts.created_at)),
        ("Finished", wording.moment(facts.finished_at)),
        *_batch_facts(facts),
    )


def _batch_facts(facts: RunFacts) -> tuple[tuple[str, str], ...]:
    if facts.saved_usd is None:
        return ()
    ends = [wording.seconds(each) if each is not None else "not ended" for each in facts.rounds_s]
    return (("Saved by batches", wording.money(facts.saved_usd)), ("Rounds", ", ".join(ends) or DASH))


def _headline(report: RunReport, unpriced_models: Sequence[str]) -> tuple[Figure, ...]:
    counts, rate = report.counts, report.pass_rate
    accepted = f"{counts.accepted} of {count(counts.judged, 'evaluated item')} accepted"
    share_span = f"{_INTERVAL} {wording.share_span(rate)}; {accepted}"
    price = wording.price(report.costs.per_accepted_usd) if counts.accepted else DASH
    figures = [
        Figure("Pass rate", wording.share(rate), share_span if rate else "no answer has a verdict yet"),
        Figure("Items counted", f"{counts.judged} of {counts.total}", _left_out(counts)),
    ]
    name, value, span = wording.row("Mean score", report.final_score)
    missing = "no scores" if value == DASH else "no interval: only one row"
    figures.append(Figure(name, value, missing if span == DASH else f"{_INTERVAL} {span}"))
    # A sentence of the first section has the interval of the gain
    name, value, _ = wording.row("Gain by the loop", report.uplift.gain, wording.change)
    figures.append(
        Figure(name, value, f"first answers: {wording.score(report.uplift.first)}" if report.uplift.n else "no scores")
    )
    return (*figures, Figure("Cost per accepted answer", price, _total(report.costs, unpriced_models)))


def _left_out(counts: Counts) -> str:
    """Say which items are not part of the rates and scores, and why."""
    # A deleted item is counted only as deleted, so that the numbers add up to all items
    deleted = {"failed": counts.deleted - counts.deleted_answers}
    kinds = [(getattr(counts, state) - deleted.get(state, 0), state) for state in _STATES[1:]]
    kinds.append((counts.succeeded - counts.judged - counts.deleted_answers, "without a verdict"))
    kinds.append((counts.deleted, "deleted"))
    words = ", ".join(f"{items} {kind}" for items, kind in kinds if items)
    return f"left out: {words}" if words else "none is left out"


def _total(costs: Costs, unpriced_models: Sequence[str]) -> str:
    if costs.total_usd is not None:
        return f"{wording.money(costs.total_usd)} in all"
    if costs.unpriced and not costs.known_usd:
        return _unknown_price(unpriced_models)
    return f"{'unknown, ' if costs.unpriced else ''}at least {wording.money(costs.known_usd)} in all"


def _unknown_price(models: Sequence[str]) -> str:
    return f"no price is known of {format_names(models)}" if models else "the prices of some calls are unknown"


def _notes(report: RunReport) -> list[str]:
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
        notes.append("Only one row has a score, which says almost nothing about others.")
    return notes


def _gaps(report: RunReport, unpriced_models: Sequence[str]) -> list[str]:
    """Describe deleted and unknown data."""
    counts, costs = report.counts, report.costs
    notes: list[str] = []
    if counts.deleted:
        what = "job of this run was" if counts.deleted == 1 else "jobs of this run were"
        notes.append(f"{counts.deleted} {what} deleted: no figure of this report includes their results and costs.")
    if costs.unpriced:
        why = f"{_unknown_price(unpriced_models)}."
        if unpriced_models:
            why += " REDRAFT_PRICES sets prices for later calls."
        notes.append(f"The cost of {count(costs.unpriced, 'item')} is unknown, and so is the cost of the run: {why}")
    return notes


def _items(tables_of: RunTables) -> Section:
    counts = tables_of.report.counts
    total = (
        f"{count(counts.total, 'item')} from {count(counts.rows, 'row')} of the dataset." if counts.total else "None."
    )
    reasons = Counter(map(_why_ended, tables_of.items))
    why = tuple((words, number(items)) for words, items in reasons.most_common())
    return Section("items", "Items", (total,), (Table("Why they ended", ("Reason", "Items"), why),) if why else ())


def _why_ended(item: ItemOutcome) -> str:
    if item.is_deleted or item.status in ("queued", "running"):
        return "deleted" if item.is_deleted else "not ended yet"
    # Items without a job have no stop reason. Most canceled ones never started; the jobs of others may be deleted
    return stop_words(item) or ("canceled without a job" if item.status == "canceled" else item.status)


def _loop(report: RunReport) -> Section:
    """Describe the effect of the loop in sentences. The headline has the scores before and after."""
    uplift, judged, words = report.uplift, report.counts.judged, report.uplift.words
    if uplift.n < judged:
        which = f"the {count(uplift.n, 'item')} of {judged} whose first answer has a score, too"
        words = (f"Compared here: {which}; the mean score above is of all.", *words)
    return Section("loop", "Did iterating help?", words)


def _iterations(yields: Sequence[IterationYield]) -> Section | None:
    if not yields:
        return None
    passes = tuple(
        (
            str(each.number),
            number(each.reached),
            number(each.evaluated),
            number(each.newly_accepted),
            wording.share(each.pass_rate),
            wording.share_span(each.pass_rate),
        )
        for each in yields
    )
    changes = tuple(
        (
            str(each.number),
            number(each.better),
            number(each.worse),
            wording.change(each.mean_change),
            wording.money(each.cost_usd),
            wording.price(each.cost_per_accepted_usd) if each.newly_accepted else DASH,
        )
        for each in yields
    )
    tables = (
        Table("Accepted", ("Iteration", "Reached", "Evaluated", "New", "Pass rate", _INTERVAL), passes),
        Table("Changes and costs", ("Iteration", "Better", "Worse", "Change", "Cost", "Each new"), changes),
    )
    return Section("iterations", "Gain of each iteration", (_COLUMNS,), tables)


def _criteria(rates: Sequence[CriterionRate]) -> Section | None:
    if not rates:
        return None
    has_weights = any(rate.weight != 1 for rate in rates)
    rows = tuple(
        (
            rate.id,
            _text_of(rate),
            *((_weight(rate),) if has_weights else ()),
            f"{number(rate.not_met)} of {number(rate.judged)}",
            wording.share(rate.first),
            wording.share(rate.returned),
            wording.share_span(rate.returned),
        )
        for rate in rates[:_CRITERIA_SHOWN]
    )
    words = "The criterion with the largest share of answers that do not meet it comes first."
    if any(rate.texts > 1 for rate in rates[:_CRITERIA_SHOWN]):
        words += " Of several texts of a criterion, the one that most answers do not meet is shown."
    if len(rates) > len(rows):
        words += f" {len(rows)} of {len(rates)} criteria are shown."
    weights = ("Weight",) if has_weights else ()
    headers = ("Criterion", "Text", *weights, "Not met", "Met at first", "Met at the end", _INTERVAL)
    return Section("criteria", "Criteria", (words,), (Table("Answers by criterion", headers, rows, numeric=False),))


def _weight(rate: CriterionRate) -> str:
    return "differs by row" if rate.weight is None else f"{rate.weight:g}"


def _accepted_without(items: Sequence[ItemOutcome]) -> Section | None:
    """List accepted answers that do not meet a criterion, the lowest score first."""
    found = [(item, [each.id for each in item.criteria if each.returned is False]) for item in items]
    found = [(item, missed) for item, missed in found if item.is_accepted and missed]
    if not found:
        return None
    found.sort(key=lambda each: (each[0].final_score or 0, each[0].custom_id, each[0].repeat))
    rows = tuple(
        (example_sections.item_name(item), wording.score(item.final_score), format_names(missed))
        for item, missed in found[:_ACCEPTED_SHOWN]
    )
    words = f"{count(len(found), 'item')}. The lowest scores come first."
    words += f" {len(rows)} of them are listed." if len(rows) < len(found) else ""
    table = Table("Lowest scores", ("custom_id", "Score", "Not met"), rows, numeric=False)
    return Section("accepted", "Accepted, although a criterion is not met", (words,), (table,))


def _text_of(rate: CriterionRate) -> str:
    text = DASH if rate.text == rate.id else rate.text
    return text if rate.texts == 1 else f"{text} (one of {number(rate.texts)} texts)"


def _advice(report: RunReport) -> Section:
    # Both recommendations may be missing for the same reason, which is shown once
    words = dict.fromkeys((report.iter_max_advice.words, report.threshold_advice.words))
    return Section("advice", "Recommended settings", tuple(words))


def _scores(report: RunReport) -> Section | None:
    bins = list(zip(report.first_scores, report.final_scores, strict=True))
    rows = tuple(
        (f"{first.low:.1f} to {first.high:.1f}", number(first.count), number(final.count))
        for first, final in bins
        if first.count or final.count
    )
    tables = (Table("Items by score", ("Score", "First", "Returned"), rows),)
    return Section("scores", "Scores", (), tables) if rows else None


def _costs(costs: Costs, accepted: int) -> Section:
    rows = (
        ("Input tokens", number(costs.input_tokens), number(costs.input_tokens_per_accepted)),
        ("Output tokens", number(costs.output_tokens), number(costs.output_tokens_per_accepted)),
    )
    words = () if accepted else ("No answer was accepted, so there is no cost per accepted answer.",)
    return Section("costs", "Tokens", words, (Table("Tokens", ("", "In all", "Per accepted answer"), rows),))


def _times(report: RunReport) -> Section:
    found = report.latency
    if found is None:
        return Section("times", "Time", ("No item has succeeded, so there are no times.",))
    values = (found.p50, found.p90, found.p95, found.p99, found.longest)
    names = ("Half within", "90 % within", "95 % within", "99 % within", "Longest")
    rows = tuple((name, wording.seconds(value)) for name, value in zip(names, values, strict=True))
    table = Table("Time", ("", "From start to end"), rows)
    return Section("times", "Time", (f"Of {count(found.n, 'item')} that succeeded.",), (table,))


def _errors(report: RunReport) -> Section:
    if not report.errors:
        return Section("errors", "Errors", ("None.",))
    rows = tuple(
        (group.code, number(group.count), group.example_id, group.example_words or DASH) for group in report.errors
    )
    headers = ("Code", "Items", "Example", "Message of the example")
    return Section("errors", "Errors", (), (Table("Errors by code", headers, rows, numeric=False),))


def _agreement(found: HumanAgreement | None, ratings: Mapping[str, int]) -> Section:
    if found is None:
        words = "The dataset has no human_score and no human_pass for an answer of this run."
        return Section("people", "Agreement with people", (words, *_rated(ratings)))
    passes, sentences, tables = found.passes, list[str](), list[Table]()
    if passes.n:
        sentences.append(
            f"Evaluator and people agree on {format_share(passes.agreement)} of {count(passes.n, 'item')}."
        )
        kappa = "undefined: one side gives all items the same verdict"
        if passes.kappa:
            interval = f"{wording.score(passes.kappa.low)} to {wording.score(passes.kappa.high)}"
            kappa = f"{wording.score(passes.kappa.value)} ({_INTERVAL} {interval})"
        sentences.append(f"Cohen's kappa, agreement beyond chance: {kappa}.")
        rows = (
            ("Evaluator accepts", str(passes.both_pass), str(passes.only_evaluator_passes)),
            ("Evaluator does not", str(passes.only_person_passes), str(passes.both_fail)),
        )
        tables.append(Table("Verdicts of evaluator and person", ("", "Person accepts", "Person does not"), rows))
    if found.scores:
        rows = (
            wording.row("Mean absolute error", found.error),
            wording.row("Evaluator minus person", found.bias, wording.change),
            wording.row("Rank correlation", found.order),
        )
        tables.append(Table(f"Scores of {count(found.scores, 'item')}", ("", "Value", _INTERVAL), rows))
        if found.error is None:
            sentences.append("People score on another scale than 0 to 1: only the order can be compared.")
    return Section("people", "Agreement with people", (*sentences, *_rated(ratings)), tuple(tables))


def _rated(ratings: Mapping[str, int]) -> tuple[str, str]:
    if not ratings:
        return "Nobody has rated a verdict of this run.", _RATINGS
    shares = ", ".join(f"{number(ratings[name])} {words}" for name, words in _RATED.items() if name in ratings)
    return f"People gave {count(sum(ratings.values()), 'rating')} of verdicts of this run: {shares}.", _RATINGS
