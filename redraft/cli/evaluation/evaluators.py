"""The commands `redraft evaluators …`, which test evaluators with built-in probes."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from redraft.cli import options, output
from redraft.cli.backends import opening

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redraft.cli.backends.opening import Backend
    from redraft.cli.exit_codes import Exit
    from redraft.domain.probes.report import ProbeResult
    from redraft.operations.bulk.dataset_checks import DatasetCheck

app = options.Group("Test evaluators with built-in probes, and tune evaluators.")

_ROWS_SHOWN = 5

MaxFlipRate = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Gate: exit with 3 if a probe has a higher flip rate (default: no gate)."),
]


@app.add(
    "test",
    "redraft evaluators test openai:gpt-6-luna",
    "redraft evaluators test openai:gpt-6-luna anthropic:claude-haiku-5-5 --tasks 4 --max-cost 1",
    "redraft evaluators test openai:gpt-6-luna --max-flip-rate 0.1 --json",
)
@options.with_evaluator_sampling
def run_probes(  # noqa: PLR0913 - one parameter per option
    *,
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL...", help="Evaluator, as provider:name; several are a panel.")
    ],
    given: dict[str, Any],
    profile: Annotated[str, typer.Option(metavar="NAME", help="Evaluation profile.")] = "criteria",
    tasks: Annotated[int, typer.Option(min=1, max=8, help="Number of tasks. More tasks give narrower intervals.")] = 8,
    max_in_flight: Annotated[int, typer.Option(help="Maximum number of evaluations at the same time.")] = 32,
    max_cost: Annotated[
        float | None, typer.Option(help="Maximum cost of the test, in USD (default: no limit).")
    ] = None,
    max_flip_rate: MaxFlipRate = None,
    as_json: options.AsJson = False,
) -> None:
    """Test an evaluator with built-in pairs of answers.

    Some pairs must get different verdicts, the other pairs the same verdict. The test is a run. The command first
    prints the maximum number of calls and the maximum cost. Ctrl-C cancels the run, and `redraft runs show` lists its
    evaluations.

    Exit codes: 0 success; 1 error; 2 wrong usage; 3 a flip rate is above --max-flip-rate; 4 the key of a provider is
    missing; 6 some evaluations failed; 75 the broker, the database or the server cannot be reached; 130 interrupted.
    """
    from redraft.cli.bulk.run_watching import conduct
    from redraft.cli.sessions import check
    from redraft.domain.bulk.run_requests import CreateRun
    from redraft.domain.calls.model_names import parse_model
    from redraft.domain.jobs.requests import DEFAULT_PROFILE
    from redraft.domain.probes import probe_answers as probes

    names = [str(parse_model(model)) for model in models]
    rows = probes.probe_rows(tasks=tasks, panel=names, with_rubric=profile == DEFAULT_PROFILE)
    sampling = options.evaluator_sampling(given)
    defaults = probes.defaults_of_test(names, profile) | ({"evaluator_sampling": sampling} if sampling else {})
    body = {"name": f"test of {' + '.join(names)}"[:500], "max_in_flight": max_in_flight, "defaults": defaults}
    request = check(CreateRun, {**body, "dataset_id": "", "max_cost_usd": max_cost})
    with opening.opened() as backend:
        dataset_id = _stored(backend, rows, defaults)

        def begin() -> str:
            return backend.create_run(request.model_copy(update={"dataset_id": dataset_id})).id

        raise typer.Exit(
            conduct(backend, begin, lambda run_id: _finish(backend, run_id, max_flip_rate, as_json=as_json))
        )


def _stored(backend: "Backend", rows: list[dict[str, Any]], defaults: dict[str, Any]) -> str:
    """Print what the test can cost, store its rows, and return the id of the dataset."""
    from io import BytesIO

    from pydantic_core import to_json

    text = b"".join(to_json(row) + b"\n" for row in rows)
    name = "evaluator-probes.jsonl"
    print_estimate(backend.check_dataset(BytesIO(text), name, None, "jsonl", {}, {"defaults": defaults}))
    return backend.import_dataset(BytesIO(text), name, None, "jsonl", {})[0].id


def print_estimate(found: "DatasetCheck") -> None:
    cost = output.cost_text(found.cost_max_usd)
    output.say(f"{found.good:,} evaluations, at most {found.calls_max:,} model calls, at most {cost}", "dim")


def _finish(backend: "Backend", run_id: str, max_flip_rate: float | None, *, as_json: bool) -> "Exit":
    """Print the results of a test that has ended, and return the exit code."""
    from redraft.cli.bulk.finished_runs import exit_of_run
    from redraft.cli.exit_codes import Exit
    from redraft.domain.probes.report import report_probes

    run, found = backend.get_run(run_id), report_probes(backend.outcomes(run_id))
    if as_json:
        output.write_json({"run": run, "probes": found})
    else:
        _show(run_id, found)
    code = exit_of_run(run, ())
    if code != Exit.INTERRUPTED and _is_above(found, max_flip_rate):
        return Exit.NOT_ACCEPTED
    return code or (Exit.SOME_FAILED if any(each.missing for each in found) else Exit.OK)


def _is_above(found: "Sequence[ProbeResult]", max_flip_rate: float | None) -> bool:
    """Whether the gate fails. A probe without verdicts makes it fail."""
    if max_flip_rate is None:
        return False
    return not found or any(each.rate is None or each.rate.value > max_flip_rate for each in found)


def _show(run_id: str, found: "Sequence[ProbeResult]") -> None:
    columns: output.Columns[ProbeResult] = {
        "probe": lambda each: each.title,
        "verdict must": lambda each: "change" if each.must_change else "stay",
        "flips": lambda each: f"{each.flips} of {each.pairs}",
        "flip rate (95 % interval)": _rate,
        "score change": lambda each: output.NONE if each.score_change is None else f"{each.score_change:+.2f}",
        "result": lambda each: f"{each.result}{f', {each.missing} without verdicts' if each.missing else ''}",
    }
    output.show_table(found, columns, ("score change", "verdict must"))
    for each in found:
        if each.result == "failed":
            output.show(f"{each.title}: {', '.join(each.wrong_rows[:_ROWS_SHOWN])}")
    output.say(f"Each evaluation: redraft runs show {run_id}", "dim")


def _rate(result: "ProbeResult") -> str:
    rate = result.rate
    return output.NONE if rate is None else f"{rate.value:.0%} ({rate.low:.0%} to {rate.high:.0%})"
