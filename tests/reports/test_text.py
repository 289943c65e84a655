"""Reports on a terminal and in a pipe."""

from dataclasses import replace
from decimal import Decimal
from io import StringIO

from rich.console import Console

from redraft.domain.bulk.examples import Examples
from redraft.domain.bulk.outcomes import ItemCriterion, ItemOutcome
from redraft.reports.comparison_report import notes_of, sides_of
from redraft.reports.run_report import run_report
from redraft.reports.text import print_report, render_text
from redraft.reports.wording import DASH
from tests.domain.bulk.outcomes import failed, looped, many
from tests.reports.sheets import EXAMPLES, HOSTILE, comparison_tables, facts, hostile_sheet, run_tables


def _printed(show, tables, *, terminal: bool, width: int = 80) -> str:
    stream = StringIO()
    show(Console(file=stream, force_terminal=terminal, width=width, color_system=None), tables)
    return stream.getvalue()


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_figures_to_see_first_come_first():
    lines = _lines(render_text(run_tables()))
    assert lines[0] == "Report: Nightly"
    assert lines[1].startswith("Run: run_1 Status: succeeded Dataset: faq.jsonl (version 9f86d081884c) Model: openai:")
    assert lines[3].startswith("Pass rate 77.7 % 95 % interval 63.7 % to 87.4 %; 35 of 45 evaluated items accepted")
    assert lines[4] == "Items counted 45 of 47 left out: 1 invalid, 1 failed"
    assert lines[5].startswith("Mean score 0.83 95 % interval ")
    assert lines[7] == "Cost per accepted answer $0.0229 $0.80 in all"
    assert lines[8].startswith("Gate pass rate: Not passed: 35 of 47 items accepted, 74.4 %; 90.0 % is wanted.")


def test_each_iteration_is_told_with_what_it_brought_and_cost():
    lines = _lines(render_text(run_tables()))
    assert "2 25 25 15 77.7 % 63.7 % to 87.4 %" in lines
    assert "2 25 0 +0.250 $0.25 $0.0167" in lines
    assert f"3 10 0 +0.100 $0.10 {DASH}" in lines


def test_the_loop_the_advice_the_errors_and_the_times_are_told():
    text = render_text(run_tables())
    lines = _lines(text)
    assert any(line.startswith("Helped: 25, 55.5 % (95 % interval 41.1 % to 69.0 %).") for line in lines)
    assert any(line.startswith("iter_max 2: iteration 3 was reached by 10 items") for line in lines)
    assert "provider_timeout 1 late It took too long." in lines
    assert "Half within 2.00 s" in lines
    assert "The dataset has no human_score and no human_pass for an answer of this run." in text
    assert "Nobody has rated a verdict of this run." in text
    assert "hard-0000 0.50 0.70 3 iteration limit" in lines


def test_costs_without_any_known_price_are_no_sum():
    free = {"price": None}
    tables = run_tables(many("a", 2, 0.9, **free), cost_usd=None, unpriced_models=("openai:writer",))
    assert "Cost per accepted answer unknown no price is known of openai:writer" in _lines(render_text(tables))


def test_a_terminal_says_how_many_examples_it_leaves_out():
    [shown] = EXAMPLES.lowest
    five = replace(run_tables(), examples=Examples(lowest=(shown,) * 5))
    assert "2 more examples in the report as a file" in render_text(five)
    assert "more example" not in render_text(replace(run_tables(), examples=Examples(lowest=(shown,) * 3)))


def test_each_figure_is_told_once():
    text = render_text(run_tables())
    once = (
        "0.81 to 0.86",
        "+0.113 to +0.206",
        "0.67",
        "25, 55.5 %",
        "41.1 % to 69.0 %",
        "$0.80",
        "1 invalid",
        "8,000",
    )
    assert {words: text.count(words) for words in once} == dict.fromkeys(once, 1)


def test_returned_answers_without_a_first_score_are_not_among_those_compared():
    lines = _lines(render_text(run_tables([*many("a", 6, 0.5, 0.9), looped("b", None, 0.1)])))
    told = "Compared here: the 6 items of 7 whose first answer has a score, too; the mean score above is of all."
    assert told in lines
    assert "Gain by the loop +0.400 first answers: 0.50" in lines


def test_examples_are_told_in_a_few_lines():
    lines = _lines(render_text(replace(run_tables(), examples=EXAMPLES)))
    at = lines.index("slow-0000")
    assert lines[at + 1 : at + 6] == [
        "Question: Which river?",
        "Iteration 1: score 0.50, not accepted",
        "Answer: First.",
        "Reasoning: It names the river.",
        "Gap: Gives the length: No length.",
    ]


def test_repeats_are_told_with_intervals_and_flaky_rows():
    items = [looped("a", 0.9), looped("a", 0.9, repeat=2), looped("b", 0.9), looped("b", 0.5, repeat=2)]
    lines = _lines(render_text(run_tables(items)))
    assert any(line.startswith("1 of 2 rows with two or more evaluated repeats is flaky") for line in lines)
    assert "2 2 100.0 % 34.2 % to 100.0 % 50.0 % 9.4 % to 90.5 %" in lines
    assert "b 1 of 2 0.50 0.90" in lines
    assert "Repeats" not in _lines(render_text(run_tables()))


def test_agreement_with_people_is_told():
    items = [*many("a", 8, 0.9, human_pass=True, human_score=4), *many("b", 4, 0.5, human_pass=True, human_score=2)]
    text = render_text(run_tables(items))
    assert "Evaluator and people agree on 66.6 %" in text
    assert "Cohen's kappa, agreement beyond chance: undefined" in text
    assert "People score on another scale than 0 to 1" in text
    on_scale = [looped(f"r{n}", n / 20, human_pass=n > 9, human_score=n / 20) for n in range(20)]
    assert "Cohen's kappa, agreement beyond chance: 0.4" in render_text(run_tables(on_scale))


def test_a_run_of_which_nothing_has_ended_says_so():
    items = [ItemOutcome("a"), ItemOutcome("b", status="running")]
    text = render_text(run_tables(items, status="running", finished_at=None))
    assert "Nothing has ended yet: 1 running, 1 queued." in text
    assert "no answer has a verdict yet" in text
    assert "No item has succeeded, so there are no times." in text
    assert "This run has not ended: 1 of 2 items so far." in render_text(run_tables([looped("a", 0.9), items[0]]))


def test_an_unknown_price_is_never_nothing():
    text = render_text(run_tables([looped("a", 0.9, price=None), looped("b", 0.9)]))
    assert "unknown, at least $0.01 in all" in " ".join(text.split())
    assert "$0.00" not in text


def test_a_model_without_a_price_is_named_with_the_setting_that_mends_it():
    text = render_text(run_tables([looped("a", 0.9, price=None)], cost_usd=None, unpriced_models=("openai:writer",)))
    assert "no price is known of openai:writer. REDRAFT_PRICES sets prices for later calls." in text


def test_limits_that_differ_from_row_to_row_are_said_to():
    assert "Threshold: by row  iter_max: by row" in render_text(run_tables(score_threshold=None, iter_max=None))
    assert f"iter_max: {DASH}" in render_text(run_tables(iter_max=None, models=()))


def test_who_is_left_out_is_told_beside_the_pass_rate():
    items = [looped("a", 0.9), looped("b", None), failed("c"), ItemOutcome("d", status="canceled"), ItemOutcome("e")]
    lines = _lines(render_text(run_tables(items)))
    assert "Items counted 1 of 5 left out: 1 failed, 1 canceled, 1 queued, 1 without a verdict" in lines
    assert "Items counted 1 of 1 none is left out" in _lines(render_text(run_tables(items[:1])))


def test_each_item_is_counted_among_the_reasons_why_items_ended():
    started = ItemOutcome("a", status="canceled", stop_reason="canceled")
    others = [ItemOutcome(name, status="canceled") for name in "bcd"]
    more = [ItemOutcome("e", status="invalid"), ItemOutcome("f"), ItemOutcome("g", status="failed", is_deleted=True)]
    [items] = [each for each in run_report(run_tables([started, *others, *more])).sections if each.key == "items"]
    assert items.sentences == ("7 items from 7 rows of the dataset.",)
    assert items.tables[0].rows == (
        ("canceled without a job", "3"),
        ("canceled", "1"),
        ("invalid", "1"),
        ("not ended yet", "1"),
        ("deleted", "1"),
    )


def test_without_an_accepted_answer_there_is_no_cost_for_each():
    assert "No answer was accepted, so there is no cost per accepted answer." in render_text(
        run_tables([looped("a", 0.1)])
    )


def test_a_pipe_gets_the_plain_lines_and_a_terminal_tables_that_fit():
    tables = run_tables()
    assert _printed(print_report, tables, terminal=False) == render_text(tables)
    shown = _printed(print_report, tables, terminal=True)
    assert "───" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert "3 10 10 0 77.7 %" in " ".join(shown.split())


def test_markup_of_rich_is_plain_text():
    tables = run_tables([looped("[bold red]x[/]", 0.1)], name="[link=file:///]n[/link]")
    assert "[bold red]x[/]" in _printed(print_report, tables, terminal=True)
    assert "[link=file:///]n[/link]" in render_text(tables)
    assert "\\x1b[31m\\u202egpj.exe\\x00\\ud800" in render_text(hostile_sheet())
    assert HOSTILE not in render_text(hostile_sheet())


def test_a_comparison_says_which_settings_of_the_runs_differ():
    given = {"defaults.rubric": "a: Is short.", "overrides.instruct": "Answer."}
    tables = comparison_tables(
        many("a", 2, 0.9), many("a", 2, 0.8), settings={**given, "defaults.rubric": [{"id": "b"}]}
    )
    tables = replace(tables, baseline=replace(tables.baseline, settings=given))
    text = render_text(tables)
    assert "The runs differ in defaults.rubric: a difference may come from the criteria" in text
    assert "defaults.rubric a: Is short. 1 criterion; not in the other run: b" in _lines(text)
    assert "overrides.instruct" not in text


def test_a_comparison_names_the_criteria_that_differ():
    same, long = {"id": "same", "text": "Is kind. " * 99}, {"id": "short", "value": 60}
    rubrics = [same, {"id": "gone"}, long], [same, {**long, "value": 40}]
    tables = comparison_tables(many("a", 2, 0.9), many("a", 2, 0.8), settings={"defaults.rubric": rubrics[1]})
    tables = replace(tables, baseline=replace(tables.baseline, settings={"defaults.rubric": rubrics[0]}))
    (line,) = [line for line in _lines(render_text(tables)) if line.startswith("defaults.rubric ")]
    assert line == (
        "defaults.rubric 3 criteria; not in the other run: gone; different in the other run: short "
        "2 criteria; different in the other run: short"
    )
    tables = replace(tables, new=replace(tables.new, settings={"defaults.rubric": rubrics[0][::-1]}))
    assert render_text(tables).count("3 criteria; in another order than in the other run") == 2


def test_more_than_two_runs_are_described_by_their_differences_from_the_baseline():
    rubrics = [[{"id": "a"}], [{"id": "a"}], [{"id": "b"}]]
    runs = [facts(name=f"n{at}", settings={"defaults.rubric": each}) for at, each in enumerate(rubrics)]
    runs[2] = replace(runs[2], score_threshold=0.95, saved_usd=Decimal(1), rounds_s=(2.0,))
    assert [note.partition(":")[0] for note in notes_of(*runs)] == [
        "The runs have different thresholds",
        "The runs differ in defaults.rubric",
    ]
    assert notes_of(*runs[:2]) == ()
    table = sides_of(*runs)
    assert table.headers == ("", "Baseline", "Run 1", "Run 2")
    found = {name: cells for name, *cells in table.rows}
    assert found["Name"] == ["n0", "n1", "n2"]
    assert found["Threshold"] == ["0.8", "0.8", "0.95"]
    assert found["Saved by batches"] == [DASH, DASH, "$1.00"]
    assert found["defaults.rubric"] == ["1 criterion", "1 criterion", "1 criterion; not in the baseline: b"]


def test_a_comparison_says_what_is_not_shown():
    old = [*many("a", 20, 0.9), *many("b", 20, 0.5)]
    new = [*many("a", 19, 0.9), looped("a0019", 0.6), *many("b", 19, 0.5), looped("c", 0.9)]
    tables = comparison_tables(old, new, score_threshold=0.7, evaluator_models=("local:tiny",), dataset_version="other")
    text = render_text(tables)
    assert text.startswith("Comparison: Tried against Nightly\n")
    assert "No difference in the mean score shown against that of Nightly" in text
    lines = _lines(text)
    assert "Newly failing 1 a0019" in lines
    assert "Wins, ties, losses 0 / 38 / 1 rows, by score" in lines
    assert "In the baseline only 1 b0019" in lines
    assert "In the new run only 1 c" in lines
    assert any("McNemar's exact test: p = 1.000" in line for line in lines)
    for words in ("different thresholds", "different evaluators", "The datasets differ"):
        assert words in text
    assert _printed(print_report, tables, terminal=False) == text
    assert max(map(len, _printed(print_report, tables, terminal=True).splitlines())) <= 80


def test_a_comparison_of_nothing_says_so():
    text = render_text(comparison_tables([], [], status="running"))
    assert "No row can be compared with Nightly" in text
    assert "no row has a score in both runs" in text
    assert "no row with a verdict in both runs" in text
    assert "No row passes in one run only." in text
    assert "All rows of both runs are compared." in text
    assert "The run Tried is running." in text


def test_of_many_names_the_first_are_shown_and_the_rest_counted():
    text = render_text(comparison_tables(many("a", 60, 0.9), many("a", 60, 0.1)))
    assert "a0049 and 10 more" in text
    long = [looped(f"{n}{'x' * 400}", 0.9) for n in range(9)]
    assert " and 5 more" in render_text(comparison_tables(long, [looped(each.custom_id, 0.1) for each in long]))


def test_a_row_that_brings_its_answer_meets_no_iteration_limit():
    missed = looped("a", 0.4, stop_reason="iteration_limit")
    lines = _lines(render_text(run_tables([missed, replace(missed, custom_id="b", only_evaluates=True)])))
    assert {"iteration limit 1", "not accepted 1"} <= set(lines)


def test_accepted_answers_that_miss_a_criterion_are_listed_and_weights_shown():
    kind, short = (
        ItemCriterion("kind", "It is kind.", True, True, weight=3),
        ItemCriterion("short", "Short.", False, False),
    )
    accepted = [looped(f"a{n:02}", 0.8 + n / 100, criteria=(kind, short)) for n in range(11)]
    missed = looped("below", 0.2, criteria=(kind, short))
    lines = _lines(render_text(run_tables([missed, *accepted])))
    assert "11 items. The lowest scores come first. 10 of them are listed." in lines
    assert lines[lines.index("custom_id Score Not met") + 1].startswith("a00 0.80 short")
    assert any(line.startswith("Criterion Text Weight Not met") for line in lines)
    assert any(line.startswith("kind It is kind. 3 0 of 12") for line in lines)


def test_examples_say_of_how_many_rows_they_are():
    items = [looped(f"r{n}", 0.7, 0.3, final_score=0.7, best_iteration=1) for n in range(4)]
    text = render_text(replace(run_tables(items), examples=Examples(hurt=EXAMPLES.hurt * 3)))
    assert "3 of 4 rows are shown." in " ".join(_lines(text))
    assert "rows are shown" not in render_text(replace(run_tables(items[:1]), examples=Examples(hurt=EXAMPLES.hurt)))
