"""The options that describe a job, declared once for all commands that create jobs."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, NamedTuple

from redraft.cli import options
from redraft.cli.jobs import rubrics


def _same(value: Any) -> Any:
    return value


def _unless_empty(values: list[str] | None) -> list[str] | None:
    return values or None


def _labels(values: list[str] | None) -> dict[str, str] | None:
    return options.pairs(values) or None


def _cache(is_used: bool) -> str | None:  # noqa: FBT001 - called by position, like the others
    return "use" if is_used else None


class _Option(NamedTuple):
    """An option, the field of a request that it sets, and how its value is read."""

    name: str
    annotation: Any
    field: str
    read: Callable[[Any], Any] = _same
    default: Any = None


_OPTIONS = (
    _Option("resp_format", options.Format, "resp_format"),
    _Option("eval_crit", options.Criteria, "eval_crit"),
    _Option("rubric", options.Rubric, "rubric", rubrics.rubric_file),
    _Option("profile", options.Profile, "profile"),
    _Option("iter_max", options.IterMax, "iter_max"),
    _Option("threshold", options.Threshold, "score_threshold"),
    _Option("model", options.Model, "model", options.ladder),
    _Option("evaluator_model", options.EvaluatorModel, "evaluator_model"),
    _Option("panel", options.Panel, "evaluation.panel", _unless_empty),
    _Option("samples", options.Samples, "evaluation.samples"),
    _Option("audit", options.Audit, "evaluation.audit"),
    _Option("skip", options.Skip, "evaluation.skip"),
    _Option("candidates", options.Candidates, "candidates"),
    _Option("strategy", options.Strategy, "revision.strategy"),
    _Option("deadline", options.Deadline, "limits.deadline_s"),
    _Option("temperature", options.Temperature, "sampling.temperature"),
    _Option("max_output_tokens", options.MaxOutputTokens, "sampling.max_output_tokens"),
    _Option("max_tokens", options.MaxTokens, "limits.max_tokens"),
    _Option("cache", options.UseCache, "cache", _cache, default=False),
    _Option("system", options.System, "system_instructions"),
    _Option("meta", options.Meta, "metadata", _labels),
)


def with_job_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that describe a job to a command, which receives their fields by dotted name as `given`."""

    @wraps(command)
    def run(**values: Any) -> None:
        command(given={each.field: each.read(values.pop(each.name)) for each in _OPTIONS}, **values)

    own = [each for each in signature(command).parameters.values() if each.name != "given"]
    shared = [
        Parameter(each.name, Parameter.KEYWORD_ONLY, default=each.default, annotation=each.annotation)
        for each in _OPTIONS
    ]
    # Arguments first; Typer lists the options of a command in this order
    parameters = [*own[:1], *shared, *own[1:]]
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run
