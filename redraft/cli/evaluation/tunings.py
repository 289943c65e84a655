"""The commands `redraft evaluators tune|tunings|edit|adopt|revert`, by which ratings of people improve an evaluator."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from redraft.cli import options, output, sessions
from redraft.cli.backends import opening
from redraft.cli.evaluation.evaluators import app, print_estimate
from redraft.cli.files import read_text
from redraft.errors import Invalid

if TYPE_CHECKING:
    from redraft.cli.backends.local import Local
    from redraft.operations.evaluation.tunings import Draft, Tuning
    from redraft.operations.services import Services

TuningRef = Annotated[str, typer.Argument(metavar="TUNING", help="The tuning: its id, or a unique prefix of its id.")]
_EXAMPLE_CHARS = 100


@contextmanager
def _services() -> "Generator[Services]":
    if url := opening.server.get():
        words = f"Tunings are made and adopted on their own installation, not at the server {url}."
        raise Invalid(f"{words} Run the command there, or open /ratings/tunings.", code="not_remote")
    with sessions.opened() as services:
        yield services


@app.add(
    "tune",
    "redraft evaluators tune openai:gpt-6-luna",
    "redraft evaluators tune openai:gpt-6-luna --examples 6 --max-cost 1",
    "redraft evaluators tune openai:gpt-6-luna --threshold --precision 0.95",
)
def tune(  # noqa: PLR0913 - one parameter per option
    *,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Evaluator, as provider:name.")],
    profile: Annotated[str, typer.Option(metavar="NAME", help="Evaluation profile.")] = "criteria",
    examples: Annotated[int, typer.Option(min=2, max=8, help="Number of examples.")] = 4,
    threshold: Annotated[
        bool, typer.Option("--threshold", help="Tune the score threshold, not the examples. This makes no call.")
    ] = False,
    precision: Annotated[
        float, typer.Option(min=0, max=1, help="Minimum precision of the threshold, as in `redraft calibration`.")
    ] = 0.9,
    max_in_flight: Annotated[int, typer.Option(help="Maximum number of evaluations at the same time.")] = 32,
    max_cost: Annotated[
        float | None, typer.Option(help="Maximum cost of the validation, in USD (default: no limit).")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Draft a tuning from people's ratings, and validate the draft.

    A tuning consists of examples for the evaluator's prompt, or of a score threshold. A draft changes nothing until
    `redraft evaluators adopt`. The command first prints the examples, the maximum number of calls and the maximum
    cost. The validation is a run that evaluates each rated answer twice: without examples, and with examples from
    other tasks.

    Exit codes: 0 success; 1 error; 2 wrong usage, or too few ratings; 6 some evaluations failed; 130 interrupted.
    """
    from redraft.cli.backends.local import Local
    from redraft.domain.calls.model_names import parse_model
    from redraft.operations.evaluation import tunings

    evaluator = str(parse_model(model))
    with _services() as services:
        if threshold:
            _show(tunings.draft_threshold(services, evaluator, profile, precision), as_json=as_json)
            return
        draft = tunings.draft_examples(services, evaluator, profile, examples)
        raise typer.Exit(_validate(services, Local(services), draft, max_in_flight, max_cost, as_json=as_json))


def _validate(
    services: "Services", backend: "Local", draft: "Draft", max_in_flight: int, max_cost: float | None, *, as_json: bool
) -> int:
    from io import BytesIO

    from redraft.cli.bulk.finished_runs import exit_of_run
    from redraft.cli.bulk.run_watching import conduct
    from redraft.cli.exit_codes import Exit
    from redraft.operations.evaluation import tunings

    output.say(f"{draft.rated} rated answers, of which people dispute {draft.disputed} verdicts. The examples:")
    for each in draft.tuning.examples:
        verdict = "passes" if each.passes else "does not pass"
        output.say(f"  {verdict}: {output.one_line(each.answer, _EXAMPLE_CHARS)}")
    print_estimate(backend.check_dataset(BytesIO(draft.rows), "rows.jsonl", None, "jsonl", {}, {}))

    def finish(run_id: str) -> Exit:
        found = tunings.get(services, draft.tuning.id)
        _show(found, as_json=as_json)
        is_whole = found.agreement is not None and not found.agreement.missing
        return exit_of_run(backend.get_run(run_id), ()) or (Exit.OK if is_whole else Exit.SOME_FAILED)

    def begin() -> str:
        return tunings.validate(services, draft, max_in_flight=max_in_flight, max_cost_usd=max_cost).id

    return conduct(backend, begin, finish)


def _show(tuning: "Tuning", *, as_json: bool) -> None:
    if as_json:
        output.write_json(tuning)
        return
    what = f"threshold {tuning.score_threshold:g}" if tuning.score_threshold is not None else "examples"
    output.show(f"{tuning.id}: {what} for {tuning.evaluator_model} with profile {tuning.profile}, {tuning.status}")
    if tuning.agreement:
        output.show(tuning.agreement.words)
    if tuning.status == "draft":
        output.say(f"Nothing has changed yet. To use it: redraft evaluators adopt {tuning.id}", "dim")


@app.add("tunings", "redraft evaluators tunings --json")
def list_tunings(*, as_json: options.AsJson = False) -> None:
    """List the latest tunings, with their examples in the JSON form."""
    from redraft.operations.evaluation import tunings

    with _services() as services:
        found = tunings.list_tunings(services)
    if as_json:
        output.write_json({"data": found})
    elif found:
        for each in found:
            _show(each, as_json=False)
    else:
        output.say("No tunings yet. From at least ten ratings, make one with: redraft evaluators tune MODEL")


@app.add("edit", "redraft evaluators edit tun_0199a3 examples.json")
def edit(
    *,
    tuning: TuningRef,
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON list of examples; '-' for stdin.")],
    as_json: options.AsJson = False,
) -> None:
    """Store a new draft with other examples. TUNING stays as it is. The new draft is not validated."""
    from redraft.operations.evaluation import tunings

    with _services() as services:
        _show(tunings.edit(services, _find(services, tuning), read_text(file, "FILE")), as_json=as_json)


@app.add("adopt", "redraft evaluators adopt tun_0199a3")
def adopt(*, tuning: TuningRef, as_json: options.AsJson = False) -> None:
    """Use a tuning for all new jobs of its evaluator and profile."""
    from redraft.operations.evaluation import tunings

    with _services() as services:
        found = tunings.adopt(services, _find(services, tuning))
    _show(found, as_json=as_json)
    output.say(f"New jobs use it. To go back: redraft evaluators revert {found.id}", "dim")


@app.add("revert", "redraft evaluators revert tun_0199a3")
def revert(*, tuning: TuningRef, as_json: options.AsJson = False) -> None:
    """Stop using a tuning. The tuning that was adopted before is used again."""
    from redraft.operations.evaluation import tunings

    with _services() as services:
        _show(tunings.revert(services, _find(services, tuning)), as_json=as_json)


def _find(services: "Services", text: str) -> str:
    from redraft.operations.evaluation import tunings

    return sessions.pick([each.id for each in tunings.list_tunings(services)], text, "tuning")
