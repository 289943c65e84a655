"""`redraft jobs diff`: what an iteration changed in the answer of another one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from redraft.cli import options, output, sessions

if TYPE_CHECKING:
    from redraft.operations.jobs.diffs import DiffPart

EPILOG = options.examples("redraft jobs diff latest", "redraft jobs diff 0199a3 --from 1 --to 2")

_MARKS = {"insert": ("{+", "+}"), "delete": ("[-", "-]"), "equal": ("", "")}
_STYLES = {"insert": "green underline", "delete": "red strike", "equal": ""}


def show_diff(
    *,
    job: options.JobRef = "latest",
    old: Annotated[
        int | None, typer.Option("--from", min=1, max=1_000_000, help="An iteration; else the one before the other.")
    ] = None,
    new: Annotated[int | None, typer.Option("--to", min=1, max=1_000_000, help="Another one; else the last.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare the answers of two iterations by word. Output: [-removed-] and {+added+}."""
    from redraft.operations.jobs import queries, references
    from redraft.operations.jobs.diffs import diff_of

    with sessions.opened() as services:
        job_id = references.find_job_id(services, job)
        iterations = queries.list_iterations(services, job_id)
    numbers = sorted({each.number for each in iterations})
    newer = new or (numbers[-1] if len(numbers) > 1 else 2)
    older = old or max((each for each in numbers if each < newer), default=1)
    found = diff_of(iterations, older, newer, job_id)
    if as_json:
        output.write_json(found.model_dump(mode="json"))
        return
    output.say(f"From iteration {older} to {newer}:", "dim")
    _show(found.parts)
    if found.is_cut:
        output.say("The answers are longer: their first 200,000 characters were compared.", "dim")


def _show(parts: Sequence["DiffPart"]) -> None:
    if output.stdout().is_terminal:
        output.show(Text.assemble(*(output.styled(part.text, _STYLES[part.kind]) for part in parts)))
        return
    marked = [(*_MARKS[part.kind], part.text) for part in parts]
    output.write_data("".join(f"{before}{text}{after}" for before, after, text in marked))
