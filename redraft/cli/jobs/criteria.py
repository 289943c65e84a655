"""`redraft jobs criteria`: which iteration met which criterion."""

from typing import TYPE_CHECKING

from rich.text import Text

from redraft.cli import options, output, sessions
from redraft.cli.views.verdicts import SIGNS, has_signs, level_of, state_of
from redraft.domain.bulk.phrases import say_score

if TYPE_CHECKING:
    from redraft.operations.jobs.iterations import CriteriaMatrix, CriterionRow, MatrixColumn

EPILOG = options.examples("redraft jobs criteria latest", "redraft jobs criteria 0199a3 --json")

_NONE = "-"


def show_criteria(*, job: options.JobRef = "latest", as_json: options.AsJson = False) -> None:
    """Show which criteria each iteration met or lost."""
    from redraft.operations.jobs import queries, references

    with sessions.opened() as services:
        matrix = queries.criteria_matrix(services, references.find_job_id(services, job))
    if as_json:
        output.write_json(matrix.model_dump(mode="json"))
    elif matrix.criteria:
        _show(matrix)
    elif matrix.iterations:
        output.say(
            "No answer of this job was evaluated criterion by criterion. "
            "Do it with: redraft jobs rescore JOB --rubric FILE, once it has ended."
        )
    else:
        output.say("This job has no answer yet, so there is nothing to show.")


def _show(matrix: "CriteriaMatrix") -> None:
    with_signs = has_signs(output.stdout())
    headers = ["criterion", *map(_title, matrix.iterations), "text"]
    rows = [
        [_name(row), *(_cell(row, column, with_signs=with_signs) for column in matrix.iterations), _text(row)]
        for row in matrix.criteria
    ]
    output.show_table(headers, [*rows, ["score", *map(_score, matrix.iterations), ""]])
    if with_signs:
        output.say("  ".join(f"{sign} {state}" for state, (sign, _) in SIGNS.items()), "dim")


def _title(column: "MatrixColumn") -> str:
    return f"{column.number}" + (f".{column.candidate}" if column.candidate > 1 else "")


def _name(row: "CriterionRow") -> str:
    return output.one_line(f"{row.id} (required)" if row.required else row.id)


def _text(row: "CriterionRow") -> str:
    words = row.text or row.kind
    return output.one_line(f"must not be: {words}" if row.weight < 0 else words, 200)


def _cell(row: "CriterionRow", column: "MatrixColumn", *, with_signs: bool) -> Text:
    cell = next((each for each in column.cells if each.id == row.id), None)
    if cell is None:
        return Text(_NONE)
    state = state_of(cell.passed, regressed=cell.regressed)
    sign, style = SIGNS[state]
    return Text(f"{sign if with_signs else state}{level_of(row.kind, cell.score)}", style=style)


def _score(column: "MatrixColumn") -> Text:
    if column.score is None:
        return Text(_NONE)
    return Text(say_score(column.score), style="green" if column.passed else "yellow")
