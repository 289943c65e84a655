"""The commands `redraft import …`, which turn evals of other programs into datasets and settings of runs."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from redraft.cli import options, output
from redraft.cli.exit_codes import Exit
from redraft.cli.files import write_file
from redraft.domain.bulk.phrases import count

if TYPE_CHECKING:
    from redraft.importing.outcomes import Finding, Imported

app = typer.Typer(
    help="Convert evals of other programs to datasets and settings.",
    rich_markup_mode=None,
    no_args_is_help=True,
)

Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        file_okay=False,
        help="New or empty folder for the files (default: imported).",
        show_default=False,
    ),
]
Visible = Annotated[
    bool,
    typer.Option(
        "--visible",
        help="Show the criteria to the generator, too. By default they are hidden from the generator, as graders in "
        "OpenAI's Evals and assertions in promptfoo are.",
    ),
]
_ITEM_FIELD = "item.FIELD"
_SHOWN_MAX = 50


@app.command(
    "openai-evals",
    epilog=options.examples(
        "redraft import openai-evals eval.json data.jsonl --output imported",
        "redraft import openai-evals eval.json results.jsonl --answer item.response --task item.question",
    ),
)
def openai_evals(
    *,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…",
            help="JSON of an eval and its runs, and JSON lines of items or output items.",
            show_default=False,
        ),
    ],
    folder: Output = Path("imported"),
    answer: Annotated[
        str | None,
        typer.Option(
            metavar=_ITEM_FIELD, help="The field of an item that is evaluated (default: the sample's output)."
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar=_ITEM_FIELD,
            help="The field of an item that is the task (default: the sample's input, else the first of the fields "
            "input, question, prompt, query, instruct, instruction and task that has a value). The input_messages of "
            "a run take precedence.",
        ),
    ] = None,
    visible: Visible = False,
    as_json: options.AsJson = False,
) -> None:
    """Import an eval of OpenAI's Evals API.

    The import reads graders, runs, items and results. Nothing is fetched or executed.

    Exit codes: 0 everything is carried over; 2 wrong usage, or the files cannot be read; 5 there is no such file;
    6 some parts are left out, and listed.
    """
    from redraft.importing.openai_evals import Options, import_evals

    chosen = Options(_path_of(answer, "--answer"), _path_of(task, "--task"), is_hidden=not visible)
    _ensure_files(files)
    _import(lambda: import_evals(files, chosen), folder, as_json=as_json)


@app.command("promptfoo", epilog=options.examples("redraft import promptfoo promptfooconfig.yaml --output imported"))
def promptfoo(
    *,
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="promptfooconfig.yaml, or as JSON.", show_default=False)
    ],
    folder: Output = Path("imported"),
    visible: Visible = False,
    as_json: options.AsJson = False,
) -> None:
    """Import a configuration of promptfoo.

    The import reads prompts, providers, tests and assertions. Nothing is fetched or executed.

    Exit codes: 0 everything is carried over; 2 wrong usage, or the files cannot be read; 5 there is no such file;
    6 some parts are left out, and listed.
    """
    from redraft.importing.promptfoo import import_config

    _ensure_files([config])
    _import(lambda: import_config(config, is_hidden=not visible), folder, as_json=as_json)


def _ensure_files(paths: list[Path]) -> None:
    from redraft.errors import NotFound

    for path in paths:
        if not path.exists():
            raise NotFound("file", str(path))


def _path_of(text: str | None, option: str) -> tuple[str, ...] | None:
    if text is None:
        return None
    head, *rest = text.split(".")
    if head != "item" or not all(rest) or not rest:
        raise typer.BadParameter(f"{text!r} is not {_ITEM_FIELD}.", param_hint=option)
    return (head, *rest)


def _import(make: "Callable[[], Imported]", folder: Path, *, as_json: bool) -> None:
    """Write the files of an import, print what is left out, and exit with the code."""
    from redraft.importing.outcomes import REPORT, commands_of, files_of
    from redraft.importing.texts import NotCarried

    if folder.exists() and any(folder.iterdir()):
        raise typer.BadParameter(f"{folder} is not empty; name a new folder.", param_hint="--output")
    try:
        imported = make()
    except NotCarried as error:
        raise typer.BadParameter(f"{error}.", param_hint="FILE") from error
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in files_of(imported):
        write_file(folder / name, lines, "/output")
    commands = commands_of(imported, folder)
    if as_json:
        output.write_json({**imported.as_json(), "commands": commands})
    else:
        _show("Carried over in another form", imported.findings.changed)
        _show("Left out", imported.findings.left_out)
        rows = count(sum(map(len, imported.datasets.values())), "row")
        output.say(
            f"Wrote {rows} in {count(len(imported.datasets), 'dataset')}. {folder / REPORT} lists all parts.",
            "dim",
        )
        output.write_lines(f"{command}\n" for command in commands)
    raise typer.Exit(Exit.SOME_FAILED if imported.findings.left_out else Exit.OK)


def _show(title: str, findings: "list[Finding]") -> None:
    if findings:
        output.say(f"{title}:", "yellow")
    for each in findings[:_SHOWN_MAX]:
        times = f" ({each.places:,} places)" if each.places > 1 else ""
        output.say(f"  {output.one_line(f'{each.where}: {each.what}: {each.why}{times}')}")
    if len(findings) > _SHOWN_MAX:
        output.say(f"  … and {len(findings) - _SHOWN_MAX:,} more")
