"""Starts and resumes runs, and watches them unless --detach leaves them to workers."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

from redraft.cli import output, sessions
from redraft.cli.bulk.dataset_files import import_named
from redraft.cli.bulk.run_ends import Wanted, print_invalid, resolved
from redraft.cli.bulk.run_watching import conduct
from redraft.datasets.formats import Format
from redraft.datasets.items import Merger
from redraft.domain.bulk.run_requests import CreateRun, ResumeRun
from redraft.errors import RedraftError
from redraft.operations.bulk import removing, runs
from redraft.operations.bulk.run_resources import Run
from redraft.operations.jobs import references
from redraft.operations.services import Services


@dataclass(frozen=True, slots=True)
class Rows:
    """The dataset argument: a file, `-`, or an id."""

    named: str
    file_format: Format | None = None
    mapping: Mapping[str, str] = field(default_factory=dict[str, str])


def start_run(rows: Rows, body: Mapping[str, Any], wanted: Wanted, *, detach: bool) -> int:
    """Import the rows, start a run with them, and watch it unless it is left to workers."""
    ready = sessions.check(CreateRun, {**body, "dataset_id": ""})
    Merger(ready.defaults, ready.overrides)  # Report wrong defaults before reading a long file
    with sessions.opened() as services:
        wanted = resolved(services, wanted)
        dataset, is_new = import_named(services, rows.named, file_format=rows.file_format, mapping=rows.mapping)
        request = ready.model_copy(update={"dataset_id": dataset.id})

        def begin() -> str:
            run = runs.create_run(services, request)
            output.say(f"{run.id}: {run.counts.total:,} items of {output.one_line(run.name, 100)}", "dim")
            print_invalid(services, run)
            return run.id

        with _removed_without_a_run(services, dataset.id) if is_new else nullcontext():
            if detach:
                return _leave(services, begin(), as_json=wanted.as_json)
            return conduct(services, begin, wanted)


@contextmanager
def _removed_without_a_run(services: Services, dataset_id: str) -> Generator[None]:
    """Remove a dataset that was stored for a run which was then refused; one that a run uses cannot be removed."""
    try:
        yield
    except BaseException:
        with suppress(RedraftError):
            removing.delete_dataset(services, dataset_id)
        raise


def resume_run(
    run: str, wanted: Wanted, *, retry_errors: bool = False, max_cost: float | None = None, detach: bool = False
) -> int:
    """Resume the open items of a run, and watch it unless it is left to workers."""
    body = sessions.check(ResumeRun, {"retry": "errors" if retry_errors else "open", "max_cost_usd": max_cost})
    with sessions.opened() as services:
        wanted = resolved(services, wanted)
        run_id = references.find_run_id(services, run)

        def begin() -> str:
            _print_resumed(runs.resume_run(services, run_id, body))
            return run_id

        if detach:
            return _leave(services, begin(), as_json=wanted.as_json)
        return conduct(services, begin, wanted)


def _print_resumed(run: Run) -> None:
    left = run.counts.queued + run.counts.running
    if left:
        output.say(f"{run.id}: {left:,} of {run.counts.total:,} items are open", "dim")
        return
    advice = "; --retry-errors does failed ones again" if run.counts.failed else ""
    output.say(f"{run.id}: nothing is open{advice}.")


def _leave(services: Services, run_id: str, *, as_json: bool) -> int:
    data = runs.get_run(services, run_id).model_dump(mode="json") if as_json else None
    sessions.print_left(services, "runs", run_id, data, as_json=as_json)
    return 0
