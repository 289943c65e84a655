"""The commands `redraft observations …`, which report how often accepted answers cite each rank of sources."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from redraft.cli import options, output, sessions
from redraft.cli.files import write_file
from redraft.cli.output import NONE
from redraft.domain.bulk.phrases import count

if TYPE_CHECKING:
    from redraft.domain.grounding.observations import RankReport, RankShare
    from redraft.operations.evaluation.observations import ObservationFilter

app = options.Group("Report which ranks of sources answers cite. The default command is `ranks`.")

_NONE_YET = (
    "No observations yet. One is stored when an answer is accepted and its sources have a relevance_score:\n"
    "  redraft ask 'How long does a refund take?' --crit 'Names the number of days.' --source chunks.jsonl\n"
    """with lines such as {"content": "Refunds take 14 days.", "chunk_id": "c1", "relevance_score": 0.83}"""
)

After = Annotated[
    datetime | None,
    typer.Option(
        metavar="DATE",
        parser=options.read_moment,
        help="Only observations at or after this UTC date or time, such as 2026-11-01.",
    ),
]
Before = Annotated[
    datetime | None,
    typer.Option(metavar="DATE", parser=options.read_moment, help="Only observations before this UTC date or time."),
]


@app.add("ranks", "redraft observations ranks", "redraft observations ranks --after 2026-11-01 --json")
def ranks(*, after: After = None, before: Before = None, as_json: options.AsJson = False) -> None:
    """Show how often accepted answers cite the sources of each rank.

    Rank 1 is the source with the highest relevance score.
    """
    from redraft.operations.evaluation import observations
    from redraft.operations.evaluation.observations import ObservationFilter

    criteria = ObservationFilter(created_after=after, created_before=before)
    with sessions.opened() as services:
        found = observations.rank_report(services, criteria)
    if as_json:
        output.write_json(found)
    elif found.ranks:
        _show_ranks(found)
    elif not found.left_out:
        _say_none(criteria)
    if found.left_out and not as_json:
        output.say(
            f"Not counted: {count(found.left_out, 'observation')} of structured answers, which have no citations."
        )


@app.add(
    "export",
    "redraft observations export > observations.jsonl",
    "redraft observations export --after 2026-11-01 --output november.jsonl",
)
def export(
    *,
    after: After = None,
    before: Before = None,
    files: Annotated[
        list[Path] | None,
        typer.Option("--output", "-o", metavar="FILE", dir_okay=False, help="Write to this file instead of stdout."),
    ] = None,
) -> None:
    """Print observations as JSON lines, oldest first."""
    from redraft.operations.evaluation import observations
    from redraft.operations.evaluation.observations import ObservationFilter

    criteria = ObservationFilter(created_after=after, created_before=before)
    if files and len(files) > 1:
        raise typer.BadParameter("is given more than once. Only one output file is possible.", param_hint="--output")
    written = 0

    def lines() -> Iterator[str]:
        nonlocal written
        for page in observations.export(services, criteria):
            written += len(page)
            yield from (each.as_line() for each in page)

    with sessions.opened() as services:
        if files:
            write_file(files[0], lines(), "--output")
            output.say(f"Wrote {count(written, 'observation')} to {files[0]}.")
            return
        output.write_lines(lines())
    if not written:
        _say_none(criteria)


def _say_none(criteria: "ObservationFilter") -> None:
    is_narrowed = criteria.created_after is not None or criteria.created_before is not None
    output.say(
        "There is no observation in this period. To count all: redraft observations ranks" if is_narrowed else _NONE_YET
    )


def _show_ranks(found: "RankReport") -> None:
    output.show_table(
        found.ranks,
        {
            "rank": lambda each: f"{each.rank}",
            "offered": lambda each: f"{each.offered}",
            "cited": lambda each: f"{each.cited}",
            "share": lambda each: _percent(each.share.value),
            "95 % interval": _interval,
        },
    )
    output.show(_in_words(found.ranks[0]))
    cited, uncited = found.mean_relevance_score.cited, found.mean_relevance_score.uncited
    output.show(f"Mean relevance score: {_score(cited)} of cited sources, {_score(uncited)} of other sources.")
    if found.observations < found.observations_needed:
        made = "1 observation is" if found.observations == 1 else f"{found.observations} observations are"
        output.show(f"{made} too few for a conclusion. At least {found.observations_needed} are needed.")


def _interval(rank: "RankShare") -> str:
    return f"{rank.share.low * 100:.0f} to {_percent(rank.share.high)}"


def _in_words(rank: "RankShare") -> str:
    answers = f"{rank.cited} of {rank.offered} accepted {'answer' if rank.offered == 1 else 'answers'}"
    share = f"{_percent(rank.share.value)}, 95 % interval {_interval(rank)}"
    return f"Rank {rank.rank} was cited in {answers} ({share})."


def _percent(value: float) -> str:
    return f"{value * 100:.0f} %"


def _score(value: float | None) -> str:
    return NONE if value is None else f"{value:.3g}"
