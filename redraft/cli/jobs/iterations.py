"""The commands `redraft jobs criteria` and `redraft jobs diff`, which compare the iterations of a job."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from redraft.cli import options, output
from redraft.cli.backends import opening
from redraft.cli.output import NONE
from redraft.cli.views.verdicts import SIGNS, has_signs, level_of, state_of
from redraft.domain.bulk.phrases import format_score

if TYPE_CHECKING:
    from redraft.domain.text.diffs import DiffPart
    from redraft.operations.jobs.iterations import CriteriaMatrix, CriterionRow, MatrixColumn

CRITERIA_EPILOG = options.examples("redraft jobs criteria latest", "redraft jobs criteria 0199a3 --json")


def show_criteria(*, job: options.JobRef = "latest", as_json: options.AsJson = False) -> None:
    """Show for each criterion which iterations met it."""
    with opening.opened_for("job", job) as (backend, job_id):
        matrix = backend.criteria_matrix(job_id)
    if as_json:
        output.write_json(matrix)
    elif matrix.criteria:
        _show_matrix(matrix)
    elif matrix.iterations:
        output.say(
            "No answer of this job was evaluated by a rubric. "
            "When the job has ended, evaluate its answers by a rubric: redraft jobs rescore JOB --rubric FILE"
        )
    else:
        output.say("This job has no answer yet.")


def _show_matrix(matrix: "CriteriaMatrix") -> None:
    with_signs = has_signs(output.stdout())
    cells = {
        f"{column.number}" + (f".{column.candidate}" if column.candidate > 1 else ""): partial(
            _cell, column, with_signs
        )
        for column in matrix.iterations
    }
    # None stands for the last row, which contains the scores
    output.show_table([*matrix.criteria, None], {"criterion": _name, **cells, "text": _text})
    if with_signs:
        output.say("  ".join(f"{sign} {state}" for state, (sign, _) in SIGNS.items()), "dim")


def _name(row: "CriterionRow | None") -> str:
    if row is None:
        return "score"
    return output.one_line(f"{row.id} (required)" if row.required else row.id)


def _text(row: "CriterionRow | None") -> str:
    words = (row.text or row.kind) if row else ""
    return output.one_line(f"must not be: {words}" if row and row.weight < 0 else words, 200)


def _cell(column: "MatrixColumn", with_signs: bool, row: "CriterionRow | None") -> Text:  # noqa: FBT001 - for `partial`
    if row is None:
        style = "green" if column.passed else "yellow"
        return Text(NONE) if column.score is None else Text(format_score(column.score), style=style)
    cell = next((each for each in column.cells if each.id == row.id), None)
    if cell is None:
        return Text(NONE)
    state = state_of(cell.passed, regressed=cell.regressed)
    sign, style = SIGNS[state]
    return Text(f"{sign if with_signs else state}{level_of(row.kind, cell.score)}", style=style)


DIFF_EPILOG = options.examples("redraft jobs diff latest", "redraft jobs diff 0199a3 --from 1 --to 2")

_MARKS = {"insert": ("{+", "+}"), "delete": ("[-", "-]"), "equal": ("", "")}
_STYLES = {"insert": "green underline", "delete": "red strike", "equal": ""}


def show_diff(
    *,
    job: options.JobRef = "latest",
    old: Annotated[
        int | None,
        typer.Option(
            "--from", min=1, max=1_000_000, help="Number of the older iteration (default: the iteration before --to)."
        ),
    ] = None,
    new: Annotated[
        int | None,
        typer.Option("--to", min=1, max=1_000_000, help="Number of the newer iteration (default: the last)."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare the answers of two iterations word by word.

    Removed words are printed as [-removed-], and added words as {+added+}. On a terminal, both are coloured instead.
    """
    from redraft.operations.jobs.diffs import diff_of

    with opening.opened_for("job", job) as (backend, job_id):
        iterations = backend.iterations(job_id)
    numbers = sorted({each.number for each in iterations})
    # If there is only one iteration, the error names the missing second iteration
    newer = new or (numbers[-1] if len(numbers) > 1 else 2)
    older = old or max((each for each in numbers if each < newer), default=1)
    found = diff_of(iterations, older, newer, job_id)
    if as_json:
        output.write_json(found)
        return
    output.say(f"From iteration {older} to {newer}:", "dim")
    _show_diff(found.parts)
    if found.is_cut:
        output.say("Only the first 200,000 characters of the answers were compared.", "dim")


def _show_diff(parts: Sequence["DiffPart"]) -> None:
    if output.stdout().is_terminal:
        output.show(Text.assemble(*(output.styled(part.text, _STYLES[part.kind]) for part in parts)))
        return
    marked = [(*_MARKS[part.kind], part.text) for part in parts]
    output.write_data("".join(f"{before}{text}{after}" for before, after, text in marked))
