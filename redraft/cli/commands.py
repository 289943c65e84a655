"""Assembles the commands of `redraft`. A command parses its options, calls operations, and prints the results."""

from importlib.metadata import version
from typing import Annotated

import typer

from redraft.cli import options
from redraft.cli.admin import db, keys, models, observations, profiles, templates
from redraft.cli.admin.agents import mcp
from redraft.cli.admin.demo import demo
from redraft.cli.admin.doctor import doctor
from redraft.cli.admin.serving import serve, worker
from redraft.cli.backends import opening
from redraft.cli.bulk import comparisons, datasets, evals, imports, improvements
from redraft.cli.evaluation import tunings
from redraft.cli.exit_codes import GuardedGroup
from redraft.cli.jobs import ask, jobs, ratings, refining

app = typer.Typer(
    cls=GuardedGroup,
    name="redraft",
    help="Write answers iteratively: generate, evaluate and revise until an answer is accepted.",
    epilog=options.examples(
        "redraft ask 'Explain recursion to a child.'",
        "redraft jobs show latest",
        "redraft eval rows.jsonl",
        "redraft serve",
    ),
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_asked: bool) -> None:  # noqa: FBT001 - Typer calls it by position
    if is_asked:
        typer.echo(f"redraft {version('redraft')}")
        raise typer.Exit


@app.callback()
def main(
    ctx: typer.Context,
    *,
    version: Annotated[  # noqa: ARG001 - its callback uses it
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[  # noqa: ARG001 - the group reads it
        bool, typer.Option("--debug", help="Print logs, and tracebacks of errors, on stderr.")
    ] = False,
    server: Annotated[
        str | None,
        typer.Option(
            envvar="REDRAFT_SERVER",
            metavar="URL",
            help="URL of a remote Redraft server to use, with the key in REDRAFT_API_KEY (default: this installation).",
        ),
    ] = None,
) -> None:
    """Write answers iteratively: generate, evaluate and revise until an answer is accepted."""
    opening.choose(server, ctx.invoked_subcommand or "")


# Commands import operations and pydantic within their functions, so that `--help` and completion stay fast
app.command("ask", epilog=ask.EPILOG)(ask.ask)
app.command("refine", epilog=refining.EPILOG)(refining.refine)
app.command("serve")(serve)
app.command("worker")(worker)
app.command("mcp")(mcp)
app.command("demo")(demo)
app.add_typer(jobs.app, name="jobs")
app.command("eval", epilog=evals.EPILOG)(evals.evaluate)
app.add_typer(improvements.app, name="runs")
app.command("compare", epilog=comparisons.EPILOG)(comparisons.compare)
app.add_typer(datasets.app, name="datasets")
app.add_typer(imports.app, name="import")
app.command("calibration", epilog=ratings.CALIBRATION_EPILOG)(ratings.calibration)
app.add_typer(tunings.app, name="evaluators")
app.add_typer(observations.app, name="observations")
app.add_typer(models.app, name="models")
app.add_typer(profiles.app, name="profiles")
app.add_typer(templates.app, name="templates")
app.add_typer(keys.app, name="keys")
app.add_typer(db.app, name="db")
app.command("doctor")(doctor)
