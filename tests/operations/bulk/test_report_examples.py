"""The rows that a report shows with question, answers, verdicts and gaps."""

import pytest

from redraft.domain.bulk.examples import ANSWER_CHARS, Example
from redraft.operations.bulk.report_tables import run_tables
from redraft.operations.jobs import lifecycle
from redraft.reports.html import render_html
from tests.model_server import ModelServer
from tests.operations.bulk.test_runs import DEFAULTS, rows, start, work_off
from tests.operations.driving import Driver
from tests.operations.rubrics import criterion, found


def _answers(example: Example) -> list[tuple[int, str, bool]]:
    return [(each.iteration, each.answer.text, each.is_returned) for each in example.attempts]


@pytest.mark.both_databases
def test_examples_have_question_answers_verdicts_and_gaps(driver: Driver, model_server: ModelServer):
    verdicts = [found(river=False, vivid=False, rude=False), found(river=True, vivid=True, rude=False)]
    model_server.script(generate=["A brook.", "The Seine."], evaluate=verdicts, case="r0")
    model_server.script(generate=["A lake."], evaluate=[found(river=False, vivid=True, rude=False)], case="r1")
    rubric = [criterion("river", weight=8), criterion("vivid"), criterion("rude", weight=-1)]
    run = work_off(driver, start(driver, rows(2, iter_max=2), defaults={"rubric": rubric}))
    tables = run_tables(driver.services, run.id)
    [helped], [lowest] = tables.examples.helped, tables.examples.lowest
    assert (helped.custom_id, _answers(helped)) == ("r0", [(1, "A brook.", False), (2, "The Seine.", True)])
    assert "r0" in helped.question.text
    gaps = [gap.criterion and gap.criterion.text for gap in helped.attempts[0].gaps]
    assert gaps == ["river (TEXT-river)", "vivid (TEXT-vivid)"]
    assert helped.attempts[1].gaps == ()
    assert (lowest.custom_id, lowest.attempts[0].is_accepted) == ("r1", False)
    page = render_html(tables)
    assert all(text in page for text in ("A brook.", "The Seine.", "A lake.", "TEXT-river"))


def test_a_worse_revision_is_shown_beside_the_returned_answer(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["good", "bad"], evaluate=[0.6, 0.2])
    run = work_off(driver, start(driver, rows(1), defaults={**DEFAULTS, "iter_max": 2}))
    examples = run_tables(driver.services, run.id).examples
    assert [_answers(each) for each in examples.hurt] == [[(1, "good", True), (2, "bad", False)]]
    assert examples.helped == ()


def test_long_answers_are_cut_and_suggestions_are_gaps(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["x" * (ANSWER_CHARS + 7)], evaluate=[0.2])
    run = work_off(driver, start(driver, rows(1), defaults={**DEFAULTS, "iter_max": 1}))
    [lowest] = run_tables(driver.services, run.id).examples.lowest
    answer = lowest.attempts[0].answer
    assert (len(answer.text), answer.length, answer.is_cut) == (ANSWER_CHARS, ANSWER_CHARS + 7, True)
    assert all(gap.criterion is None and gap.words.text for gap in lowest.attempts[0].gaps)


def test_deleted_jobs_have_no_examples(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.2])
    run = work_off(driver, start(driver, rows(1), defaults={**DEFAULTS, "iter_max": 1}))
    [lowest] = run_tables(driver.services, run.id).examples.lowest
    lifecycle.delete(driver.services, lowest.job_id)
    assert run_tables(driver.services, run.id).examples.lowest == ()
