"""`python -m benchmarks.evidence` runs the arms on the server in REDRAFT_SERVER, or on a server that it starts."""

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Generator, Sequence
from pathlib import Path
from typing import Any, cast

from redraft_client import Redraft
from redraft_client.requests import JobFields

from benchmarks.evidence.arms import ARMS, Arm
from benchmarks.evidence.figures import Job, table
from benchmarks.evidence.tasks import Task, tasks
from redraft.domain.evaluation.rubrics import run_checks
from redraft.domain.jobs.requests import GenerateAnswer

_DEADLINE_S = 86_400


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the chosen arms, store their jobs, and print the figures. Jobs that are already stored are not repeated."""
    options = _parse(arguments)
    picked = tasks(options.half)[:: options.every]
    jobs = _stored(options.output, {task.id for task in picked})
    done = Counter((job.arm, job.task) for job in jobs)
    chosen = [arm for arm in ARMS if arm.name in options.arms]
    left = {arm: [task for task in picked if done[arm.name, task.id] < options.repeat] for arm in chosen}
    if any(left.values()):
        with server() as redraft:
            for arm in chosen:
                if left[arm]:
                    made = _run(redraft, arm, left[arm], options)
                    _store(options.output, made)
                    jobs += made
    print(table(_newest(jobs), ARMS, options.baseline))


def _newest(jobs: Sequence[Job]) -> list[Job]:
    """Return the newest job of each arm, task and repeat. An earlier job of the same kind is left out."""
    return list({(job.arm, job.task, job.repeat): job for job in jobs}.values())


def _stored(file: Path | None, ids: Collection[str]) -> list[Job]:
    if file is None or not file.exists():
        return []
    jobs = [Job(**json.loads(line)) for line in file.read_text("utf-8").splitlines()]
    return [job for job in _newest(jobs) if job.task in ids]


def _store(file: Path | None, jobs: Sequence[Job]) -> None:
    if file is not None:
        with file.open("a", encoding="utf-8") as stream:
            stream.writelines(json.dumps(job.as_dict(), ensure_ascii=False) + "\n" for job in jobs)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    names = [arm.name for arm in ARMS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence", description=__doc__)
    parser.add_argument("--half", choices=["tuning", "held_out"], default="tuning", help="which half of the tasks")
    parser.add_argument("--arms", nargs="+", choices=names, default=names, metavar="ARM", help=", ".join(names))
    parser.add_argument("--baseline", choices=names, default="best_of", help="the arm to compare the others with")
    parser.add_argument("--repeat", type=int, default=1, help="jobs per task and arm")
    parser.add_argument("--in-flight", type=int, default=4, help="jobs at once")
    parser.add_argument("--every", type=int, default=1, help="use every n-th task only")
    parser.add_argument("--model", help="generator, as provider:name; default: the server's")
    parser.add_argument("--evaluator", help="evaluator, as provider:name; default: the server's")
    parser.add_argument("--temperature", type=float, help="of the generator")
    parser.add_argument("--output", type=Path, help="after each arm, append its jobs to this file")
    return parser.parse_args(arguments)


@contextlib.contextmanager
def server() -> Generator[Redraft]:
    """Yield a client of the server in REDRAFT_SERVER, or of a server that runs only during the block."""
    if os.environ.get("REDRAFT_SERVER"):
        with Redraft() as redraft:
            yield redraft
        return
    with tempfile.TemporaryDirectory() as folder, socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
        found.close()
        command = [str(Path(sys.executable).parent / "redraft"), "serve", "--port", str(port)]
        own = {"REDRAFT_DATA_DIR": folder, "REDRAFT_LOG_LEVEL": "WARNING"}
        with subprocess.Popen(command, env={**os.environ, **own}, stdout=sys.stderr) as process:
            try:
                with Redraft(f"http://127.0.0.1:{port}") as redraft:
                    yield redraft
            finally:
                process.terminate()


def _run(redraft: Redraft, arm: Arm, picked: Sequence[Task], options: argparse.Namespace) -> list[Job]:
    dataset = redraft.datasets.upload([arm.rows(task) for task in picked], name=f"{options.half}.jsonl")
    fields = {
        "score_threshold": 1,
        "limits": {"deadline_s": _DEADLINE_S},
        "sampling": {"max_output_tokens": 200, "temperature": options.temperature},
        "model": options.model,
        "evaluator_model": options.evaluator,
        **arm.fields,
    }
    overrides = cast("JobFields", fields)
    # The bundled model makes few calls at once. More jobs would only wait
    run = redraft.runs.start(
        dataset_id=dataset.id,
        name=arm.name,
        overrides=overrides,
        repeat=options.repeat,
        max_in_flight=options.in_flight,
    )
    redraft.runs.wait(run.id)
    by_id = {task.id: task for task in picked}
    items = [json.loads(line) for line in redraft.runs.results(run.id).splitlines()]
    return [_job(arm, by_id[item["custom_id"]], item) for item in items]


def _job(arm: Arm, task: Task, item: dict[str, Any]) -> Job:
    answer = item["final_answer"]
    rubric = GenerateAnswer(instruct=task.instruct, rubric=task.row()["rubric"]).rubric or []
    results = run_checks(rubric, answer or "", sources=len(task.sources))
    passed = [answer is not None and result.passed is True for result in results]
    return Job(
        arm=arm.name,
        task=task.id,
        family=task.family,
        repeat=item["repeat"],
        is_right=all(passed),
        passed=sum(passed) / len(passed),
        calls=item["calls"],
        tokens=item["input_tokens"] + item["output_tokens"],
        cost_usd=item["cost_usd"],
        ended=item["stop_reason"] or item["error_code"] or item["status"],
        iterations=item["iterations"],
        answer=answer,
    )


if __name__ == "__main__":
    main()
