"""The command `redraft runs improve`: a model drafts a better request, and two runs of held-out rows compare it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from redraft.cli import options, output
from redraft.cli.backends import opening
from redraft.cli.bulk import bulk_options
from redraft.cli.bulk.runs import app
from redraft.errors import Conflict, Invalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from redraft.cli.backends.opening import Backend
    from redraft.cli.exit_codes import Exit
    from redraft.domain.bulk.improvements import Improvement, SharedRequest
    from redraft.domain.bulk.run_requests import CreateRun
    from redraft.operations.bulk.datasets import DatasetItem
    from redraft.operations.bulk.run_resources import Run
    from redraft.operations.jobs.resources import Job
    from redraft.reports.tables import ComparisonTables

__all__ = ["app"]
_PAGE = 100
# Longer texts of a draft are cut on the screen
_CHARS = 4000
# The jobs that draft have this label. Its value is the id of the run
_LABEL = "improves"


@app.add(
    "improve",
    "redraft runs improve latest --max-cost 1",
    "redraft runs improve latest --draft job_0199a3",
    "redraft runs improve latest --draft job_0199a3 --adopt better.json",
)
def improve(
    *,
    run: bulk_options.RunRef,
    model: Annotated[
        str | None, typer.Option(help="Model that drafts, as provider:name (default: REDRAFT_MODEL).")
    ] = None,
    draft: Annotated[
        str | None, typer.Option(metavar="JOB", help="Use the draft of this job instead of a new draft.")
    ] = None,
    adopt: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            dir_okay=False,
            help="Write the changed fields to a file for `redraft eval --defaults`, and start no run. Needs --draft.",
        ),
    ] = None,
    max_in_flight: Annotated[int, typer.Option(help="Maximum number of jobs that run at the same time.")] = 32,
    max_cost: Annotated[
        float | None, typer.Option(help="Maximum cost of the draft, and of each run, in USD (default: no limit).")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Draft a better request for a run, and compare it with the old one.

    The model sees the rejected answers of one half of the rows, and may reword `instruct`, `resp_format` and
    the rubric, if the run sets them for all rows. Then both requests run on the other half, which the model has not
    seen. Nothing is adopted without --adopt.

    Exit codes: 0 the requests are compared, or the draft is written; 1 error; 2 wrong usage, nothing to improve, or a
    draft that cannot be used; 6 some items failed; 130 interrupted.
    """
    from redraft.domain.bulk.improvements import is_held_out

    if adopt and not draft:
        raise typer.BadParameter("Name the draft to adopt: --draft JOB.", param_hint="--adopt")
    with opening.opened_for("run", run) as (backend, run_id):
        found, rows = _read_run(backend, run_id)
        shared = _shared(found, rows)
        limits = {"max_in_flight": max_in_flight, "max_cost_usd": max_cost, "delivery": found.delivery}
        trial = _Trial(backend, found, limits)
        # The draft costs money, so the limits of the runs are checked first
        trial.check({})
        job = _find_draft(backend, found, draft) if draft else _draft(backend, found, shared, model, max_cost)
        improvement = _read(job, shared)
        if not as_json:
            _show(improvement)
        if adopt:
            _write(adopt, improvement)
            return
        held_out = [row for row in rows if is_held_out(row.custom_id or "")]
        code = trial.compare(held_out, improvement, job, as_json=as_json)
        output.say(f"To adopt it: redraft runs improve {found.id} --draft {job.id} --adopt better.json", "dim")
        raise typer.Exit(code)


def _read_run(backend: "Backend", run_id: str) -> "tuple[Run, list[DatasetItem]]":
    """Return an ended run, and the good rows of its dataset."""
    found = backend.get_run(run_id)
    if found.status == "running":
        raise Conflict(f"{run_id} has not ended. Wait for it, or cancel it.", code="run_not_ended")
    rows = list[Any]()
    after = -1
    while page := backend.list_rows(found.dataset_id, after, _PAGE):
        rows += [row for row in page if row.fields is not None]
        after = page[-1].position
    return found, rows


def _shared(run: "Run", rows: "Sequence[DatasetItem]") -> "SharedRequest":
    from redraft.domain.bulk.improvements import is_held_out, shared_request

    if rows and all("answer" in (row.fields or {}) for row in rows):
        raise Invalid(f"{run.id} only evaluates given answers, so no draft can change them.", code="nothing_to_improve")
    shared = shared_request({**run.defaults, **run.overrides}, [row.fields or {} for row in rows])
    if not shared.texts and not shared.shown_criteria:
        words = "Each row has its own instruct, resp_format and rubric, so there is no common text to improve."
        raise Invalid(words, code="nothing_to_improve")
    if not any(is_held_out(row.custom_id or "") for row in rows):
        raise Invalid("No row is held out. Run the request on more rows first.", code="too_few_rows")
    return shared


def _find_draft(backend: "Backend", run: "Run", draft: str) -> "Job":
    job = backend.get_job(backend.find("job", draft))
    if job.metadata.get(_LABEL) != run.id:
        raise Invalid(f"{job.id} is no draft for {run.id}.", code="not_a_draft")
    return job


def _draft(backend: "Backend", run: "Run", shared: "SharedRequest", model: str | None, max_cost: float | None) -> "Job":
    """Run the job that drafts. The job has calls, a cost and a budget like any other job."""
    from redraft.cli.sessions import check
    from redraft.cli.views.waiting import interrupted_by_sigterm
    from redraft.domain.bulk.improvements import count_failures, failing_rows, why_none_fails
    from redraft.domain.jobs.requests import GenerateAnswer
    from redraft.prompts.improving import drafting_job

    failing = failing_rows(_items(backend, run.id))
    outcomes = backend.outcomes(run.id)
    if not failing:
        raise Invalid(f"{run.id}: {why_none_fails(outcomes)}", code="nothing_to_improve")
    body = drafting_job(shared, failing, count_failures(outcomes))
    own = {"model": model, "metadata": {_LABEL: run.id}, "limits": {"max_cost_usd": max_cost}}
    request = check(GenerateAnswer, {**body, **own})
    backend.check_request(request)
    with output.status(f"Drafting from {len(failing)} answers that were not accepted …"):
        with backend.worker_beside() as keep_alive, interrupted_by_sigterm():
            job = backend.submit(request, None)
            try:
                for _ in backend.follow(job.id, 0, keep_alive, request.limits.deadline_s):
                    pass
            except KeyboardInterrupt:
                if backend.cancels:
                    backend.cancel_job(job.id)
                raise
        job = backend.get_job(job.id)
    output.say(f"Drafted by {job.id}: {output.usage_text(job.usage)}", "dim")
    return job


def _items(backend: "Backend", run_id: str) -> "Iterator[Mapping[str, Any]]":
    after = 0
    while page := backend.list_items(run_id, after, _PAGE):
        yield from page
        after = page[-1]["number"]


def _read(job: "Job", shared: "SharedRequest") -> "Improvement":
    from redraft.cli import exit_codes
    from redraft.cli.views.waiting import print_error
    from redraft.prompts.improving import read_draft

    if job.status == "failed" and job.error:
        print_error(job.id, job.error)
        raise typer.Exit(exit_codes.exit_of_code(job.error["code"]))
    if job.status in ("queued", "running"):
        raise Conflict(f"{job.id} has not ended. Wait for it: redraft jobs watch {job.id}", code="draft_not_ended")
    if job.status == "canceled" and not job.result:
        raise Invalid(f"{job.id} was canceled before it had a draft.", code="draft_unusable")
    try:
        return read_draft((job.result or {}).get("parsed"), shared)
    except ValueError as error:
        words = f"The draft of {job.id} cannot be used: {output.one_line(str(error))} Run the command again for another"
        words = f"{words} draft, or say what to change: redraft jobs continue {job.id} --guidance …"
        raise Invalid(words, code="draft_unusable") from None


def _show(improvement: "Improvement") -> None:
    output.show(f"Reasons: {_cut(improvement.reasons)}")
    for name, old, new in improvement.texts:
        output.show_section(name, [(f"- {_cut(old)}", "red"), (f"+ {_cut(new)}", "green")])
    output.show("")


def _cut(text: str) -> str:
    return text if len(text) <= _CHARS else f"{text[:_CHARS]} … ({len(text):,} characters)"


def _write(file: Path, improvement: "Improvement") -> None:
    from pydantic_core import to_json

    from redraft.cli.files import write_file

    write_file(file, [to_json(improvement.after, indent=2).decode() + "\n"], "--adopt")
    output.say(f"Wrote {', '.join(improvement.after)} to {file}. Use it with: redraft eval ROWS --defaults {file}")


class _Trial:
    """Runs the old request and the draft on the same rows, one run after the other, and compares the runs."""

    def __init__(self, backend: "Backend", run: "Run", limits: "Mapping[str, Any]") -> None:
        self._backend = backend
        self._run = run
        self._limits = limits
        self._code = 0

    def compare(
        self, held_out: "Sequence[DatasetItem]", improvement: "Improvement", draft: "Job", *, as_json: bool
    ) -> "Exit":
        """Run both requests, print the comparison, and return the exit code."""
        from dataclasses import asdict

        from redraft.cli.exit_codes import Exit
        from redraft.domain.bulk.improvements import HELD_OUT_NEEDED, is_decided_by_code
        from redraft.reports.figures import figures_of
        from redraft.reports.text import print_report

        # Both requests are checked before the first run costs anything
        self.check(improvement.after)
        rows = [{**(row.fields or {}), "custom_id": row.custom_id, "vars": row.vars or {}} for row in held_out]
        runs = [
            self._conduct(rows, "old request", draft),
            self._conduct(rows, "draft", draft, improvement.after),
        ]
        unanswered = [self._unanswered(each, len(rows)) for each in runs]
        fields = [{**self._run.defaults, **row, **self._run.overrides} for row in rows]
        if not all(map(is_decided_by_code, fields)):
            output.say("An evaluator sees the request, so the old request evaluates the answers of both runs again.")
            answers = [self._answers(rows, each) for each in runs]
            names = ("answers by the old request", "answers by the draft")
            runs = [self._conduct(each, name, draft) for each, name in zip(answers, names, strict=True)]
        tables = self._compared(runs, unanswered)
        if as_json:
            figures = {"runs": runs, "comparison": figures_of(tables)}
            output.write_json({"draft": draft.id, **asdict(improvement), **figures})
        else:
            print_report(output.stdout(), tables)
        if tables.comparison.n < HELD_OUT_NEEDED:
            words = f"{tables.comparison.n} held-out rows are too few to tell whether the draft is better;"
            output.say(f"{words} the test needs at least {HELD_OUT_NEEDED}.", "yellow")
        return Exit(self._code)

    def check(self, changes: "Mapping[str, Any]") -> None:
        """Raise Invalid if a run with these changes would be refused."""
        from redraft.cli.sessions import check
        from redraft.datasets.items import Merger
        from redraft.domain.bulk.run_requests import CreateRun

        body = check(CreateRun, self._body(self._run.dataset_id, "", changes))
        Merger(body.defaults, body.overrides)

    def _body(self, dataset_id: str, name: str, changes: "Mapping[str, Any]") -> dict[str, Any]:
        layers = {"defaults": self._run.defaults, "overrides": {**self._run.overrides, **changes}}
        return {"dataset_id": dataset_id, "name": f"{self._run.name}, {name}"[:500], **layers, **self._limits}

    def _conduct(
        self,
        rows: "Sequence[Mapping[str, Any]]",
        name: str,
        draft: "Job",
        changes: "Mapping[str, Any] | None" = None,
    ) -> str:
        """Run rows with the settings of the old run and with changes. Return the id of the run."""
        from io import BytesIO

        from pydantic_core import to_json

        from redraft.cli.bulk.finished_runs import exit_of_run
        from redraft.cli.bulk.run_watching import conduct
        from redraft.cli.exit_codes import Exit
        from redraft.cli.sessions import check
        from redraft.domain.bulk.run_requests import CreateRun

        backend, run = self._backend, self._run
        text = b"".join(to_json(row) + b"\n" for row in rows)
        dataset, _ = backend.import_dataset(BytesIO(text), f"{run.name}, held out", None, "jsonl", {})
        request: CreateRun = check(CreateRun, self._body(dataset.id, name, changes or {}))
        if known := self._find_finished(request, draft):
            output.say(f"{known}: {len(rows)} held-out rows, {name}, from an earlier trial of this draft", "dim")
            return known
        started: list[str] = []

        def begin() -> str:
            started.append(backend.create_run(request).id)
            output.say(f"{started[0]}: {len(rows)} held-out rows, {name}", "dim")
            return started[0]

        code = conduct(backend, begin, lambda run_id: exit_of_run(backend.get_run(run_id), ()))
        if code == Exit.INTERRUPTED:
            output.say(
                f"To repeat the trial without its finished runs: redraft runs improve {run.id} --draft {draft.id}"
            )
            raise typer.Exit(code)
        self._code = max(self._code, code)
        return started[0]

    def _find_finished(self, request: "CreateRun", draft: "Job") -> str | None:
        """Return the equal run of an interrupted trial of this draft if all its items succeeded."""
        from redraft.cli.bulk.finished_runs import exit_of_run
        from redraft.cli.exit_codes import Exit

        wanted = request.model_dump(include={"name", "dataset_id", "defaults", "overrides", "delivery", "repeat"})
        for run in self._backend.list_runs(None, _PAGE)[0]:
            is_equal = all(getattr(run, name) == value for name, value in wanted.items())
            is_later = run.created_at >= draft.created_at
            if is_equal and is_later and run.status == "succeeded" and exit_of_run(run, ()) == Exit.OK:
                return run.id
        return None

    def _unanswered(self, run_id: str, rows: int) -> list[str]:
        """Return the rows of a run without an answer. Raises Invalid if there is no answer at all."""
        from redraft.domain.bulk.improvements import unanswered_rows

        items = list(_items(self._backend, run_id))
        if not any(item["final_answer"] for item in items):
            words = f"{self._backend.get_run(run_id).name}: no row of {rows} has an answer, so nothing can be compared."
            raise Invalid(f"{words} The errors: redraft runs show {run_id}", code="no_answers")
        return unanswered_rows(items)

    def _compared(self, run_ids: "Sequence[str]", unanswered: "Sequence[Sequence[str]]") -> "ComparisonTables":
        """Compare two runs. Their rows without an answer count as not accepted."""
        from dataclasses import replace

        from redraft.domain.bulk.comparison import compare
        from redraft.domain.bulk.improvements import with_rejected

        tables = self._backend.comparison_tables(*run_ids)
        if not any(unanswered):
            return tables
        old, new = map(len, unanswered)
        words = "Rows without an answer count as not accepted, with score 0:"
        output.say(f"{words} {old} of the old request, {new} of the draft.", "yellow")
        pairs = zip(run_ids, unanswered, strict=True)
        before, after = (with_rejected(self._backend.outcomes(run_id), names) for run_id, names in pairs)
        return replace(tables, comparison=compare(before, after, name=tables.baseline.name))

    def _answers(self, rows: "Sequence[Mapping[str, Any]]", run_id: str) -> list[dict[str, Any]]:
        """Return rows that evaluate the answers of a run."""
        from redraft.domain.jobs.requests import EvaluateAnswer

        known = {*EvaluateAnswer.model_fields, "custom_id"}
        answers = {item["custom_id"]: item["final_answer"] for item in _items(self._backend, run_id)}
        evaluated = [{name: value for name, value in row.items() if name in known} for row in rows]
        return [{**row, "answer": text} for row in evaluated if (text := answers.get(row["custom_id"]))]
