"""`redraft observations …`: which of the sources that a retriever ranked end up cited in accepted answers."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from redraft.cli import options, output, sessions
from redraft.domain.jobs.times import read_time
from redraft.errors import Invalid

if TYPE_CHECKING:
    from redraft.domain.grounding.observations import RankReport, RankShare
    from redraft.operations.evaluation.observations import ObservationFilter

app = typer.Typer(
    help="See which ranked sources accepted answers cite. Without a command: show the ranks.",
    rich_markup_mode=None,
    invoke_without_command=True,
)


@app.callback()
def main(ctx: typer.Context) -> None:
    """Show the ranks when no command is named."""
    if ctx.invoked_subcommand is None:
        ranks()


NONE = "-"
_NONE_YET = (
    "No observations yet. One is kept when an answer is accepted whose sources carry a relevance_score:\n"
    "  redraft ask 'How long does a refund take?' --crit 'Rests on the sources.' --source chunks.jsonl\n"
    """with lines such as {"content": "Refunds take 14 days.", "chunk_id": "c1", "relevance_score": 0.83}"""
)

After = Annotated[str | None, typer.Option(metavar="DATE", help="Only newer ones: 2026-11-01, or with a time; in UTC.")]
Before = Annotated[str | None, typer.Option(metavar="DATE", help="Only older ones; without a time: before that day.")]


@app.command(
    "export",
    epilog=options.examples(
        "redraft observations export > observations.jsonl",
        "redraft observations export --after 2026-11-01 --output november.jsonl",
    ),
)
def export(
    *,
    after: After = None,
    before: Before = None,
    files: Annotated[
        list[Path] | None,
        typer.Option("--output", "-o", metavar="FILE", dir_okay=False, help="Write there, not to stdout."),
    ] = None,
) -> None:
    """Print all observations, oldest first: one line of JSON each."""
    from redraft.operations.evaluation import observations

    criteria = _criteria(after, before)
    if files and len(files) > 1:
        raise typer.BadParameter("is given more than once; the lines go to one file.", param_hint="--output")
    file = files[0] if files else None
    count = 0
    with sessions.opened() as services, _generator(file) as write:
        for page in observations.export(services, criteria):
            write("".join(each.as_line() for each in page))
            count += len(page)
    if file is not None:
        output.say(f"Wrote {_counted(count)} to {file}.")
    elif not count:
        _say_none(criteria)


@contextmanager
def _generator(file: Path | None) -> Generator[Callable[[str], object]]:
    if file is None:
        yield output.write_data
        return
    try:
        with file.open("w", encoding="utf-8", newline="\n") as stream:
            yield stream.write
    except OSError as error:
        raise Invalid.at("--output", f"{file} cannot be written: {error.strerror}.", "output") from error


@app.command(
    "ranks",
    epilog=options.examples("redraft observations ranks", "redraft observations ranks --after 2026-11-01 --json"),
)
def ranks(*, after: After = None, before: Before = None, as_json: options.AsJson = False) -> None:
    """Show how often sources of each rank were cited. Rank 1 has the highest relevance score."""
    from redraft.operations.evaluation import observations

    criteria = _criteria(after, before)
    with sessions.opened() as services:
        found = observations.rank_report(services, criteria)
    if as_json:
        output.write_json(asdict(found))
    elif found.ranks:
        _show_ranks(found)
    elif not found.left_out:
        _say_none(criteria)
    if found.left_out and not as_json:
        output.say(f"Left out: {_counted(found.left_out)} of answers whose citations are not read.")


def _criteria(after: str | None, before: str | None) -> "ObservationFilter":
    from redraft.operations.evaluation.observations import ObservationFilter

    return ObservationFilter(
        created_after=_moment(after, "--after") if after else None,
        created_before=_moment(before, "--before") if before else None,
    )


def _moment(text: str, option: str) -> datetime:
    try:
        return read_time(text)
    except ValueError as error:
        raise Invalid.at(option, f"{error}.", "date") from None


def _say_none(criteria: "ObservationFilter") -> None:
    is_narrowed = criteria.created_after is not None or criteria.created_before is not None
    output.say("No observation of that time. All of them: redraft observations ranks" if is_narrowed else _NONE_YET)


def _show_ranks(found: "RankReport") -> None:
    rows = [
        (
            f"{each.rank}",
            f"{each.offered}",
            f"{each.cited}",
            _percent(each.share.value),
            f"{each.share.low * 100:.0f} to {_percent(each.share.high)}",
        )
        for each in found.ranks
    ]
    output.show_table(("rank", "offered", "cited", "share", "95 % interval"), rows)
    output.show(_in_words(found.ranks[0]))
    cited, uncited = found.mean_relevance_score.cited, found.mean_relevance_score.uncited
    output.show(f"Mean relevance score: {_score(cited)} of cited sources, {_score(uncited)} of the others.")
    if found.observations < found.observations_needed:
        words = f"That is {_counted(found.observations)}: too little to conclude from."
        output.show(f"{words} Wait for {found.observations_needed}.")


def _in_words(rank: "RankShare") -> str:
    interval = f"95 % interval {rank.share.low * 100:.0f} to {_percent(rank.share.high)}"
    answers = "answer" if rank.offered == 1 else "answers"
    return (
        f"Rank {rank.rank} was cited in {rank.cited} of {rank.offered} accepted {answers}"
        f" ({_percent(rank.share.value)}, {interval})."
    )


def _percent(value: float) -> str:
    return f"{value * 100:.0f} %"


def _score(value: float | None) -> str:
    return NONE if value is None else f"{value:.3g}"


def _counted(count: int) -> str:
    return f"{count} observation" if count == 1 else f"{count} observations"
