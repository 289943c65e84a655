"""A small installation with something on every page: the same jobs and runs each time, and no network.

For pictures of the pages, and for looking at them: `python -m tests.support.showcase` serves it.
"""

import json
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from sqlalchemy import func, select, update

from api.app import create_app
from redraft.domain.bulk.run_requests import CreateRun
from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.domain.jobs.states import Step
from redraft.messages import StepMessage
from redraft.operations.bulk import datasets, runs, scheduler
from redraft.operations.jobs.submit import submit
from redraft.operations.services import Services
from redraft.operations.steps.engine import Engine
from redraft.operations.steps.executor import run as run_step
from redraft.operations.steps.leases import LeaseHolder
from redraft.runtime import build_runtime
from redraft.settings import ModelPrice, Settings
from redraft.storage.admin import workers
from redraft.storage.engine.bulk_tables import runs as runs_table
from redraft.storage.engine.tables import calls, events, iterations, jobs
from tests.model_server.requests import Asked
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.support.api_server import ApiServer
from tests.support.databases.sqlite import create_sqlite
from tests.support.shells import drain
from tests.support.valkey import ValkeyServer

WRITER, BETTER, JUDGE = "openai:gpt-5-mini", "openai:gpt-5", "anthropic:claude-haiku-5"
PRICES = {
    WRITER: ModelPrice(input=0.25, output=2.0),
    BETTER: ModelPrice(input=1.25, output=10.0),
    JUDGE: ModelPrice(input=1.0, output=5.0),
}

_WORKER_ID = new_id("worker")
WORKER = {"host": "worker-1", "pid": 4711, "concurrency": 8, "version": version("redraft")}

CRITERIA = "Correct, complete and polite."
SKY = "Explain to a ten-year-old why the sky is blue and the sunset is red."
_SKY_ANSWERS = (
    (
        "The sky looks blue because of Rayleigh scattering: the intensity of scattered light is inversely "
        "proportional to the fourth power of its wavelength, so short wavelengths dominate."
    ),
    (
        "Sunlight looks white, but all colours of the rainbow are mixed in it. When it meets the tiny bits of air, "
        "**blue light bounces around** far more than red light does. So blue comes to your eyes from everywhere."
    ),
    (
        "Sunlight looks white, but all colours of the rainbow are mixed in it.\n\n"
        "- **At noon**, blue light bounces off the tiny bits of air like a ball in a pinball machine. It reaches "
        "your eyes from everywhere: the sky looks blue.\n"
        "- **At sunset**, the light comes a much longer way through the air. Most of the blue has bounced away by "
        "then, and red and orange are what is left."
    ),
)
_SKY_RUBRIC = [
    {"id": "noon", "text": "Says why the sky is blue: blue light is scattered more.", "required": True},
    {"id": "sunset", "text": "Says why the sunset is red: a longer way through the air.", "required": True},
    {"id": "child", "text": "A ten-year-old understands every word.", "kind": "scale", "weight": 2},
    {"id": "short", "kind": "check", "check": {"kind": "max_words", "value": 90}},
]
_SKY_VERDICTS: tuple[Mapping[str, tuple[bool | int, str, str]], ...] = (
    {
        "noon": (True, "short wavelengths dominate", ""),
        "sunset": (False, "", "Nothing is said about the sunset. Say why it is red."),
        "child": (1, "inversely proportional to the fourth power", "Replace the physics terms by a picture."),
    },
    {
        "noon": (True, "blue light bounces around far more", ""),
        "sunset": (False, "", "The sunset is still missing: tell of the longer way through the air."),
        "child": (4, "tiny bits of air", "A picture from everyday life would help."),
    },
    {
        "noon": (True, "blue light bounces off the tiny bits of air", ""),
        "sunset": (True, "a much longer way through the air", ""),
        "child": (5, "like a ball in a pinball machine", ""),
    },
)
_TASKS = (
    ("Write a polite reply to a customer whose parcel is three days late.", 2),
    ("Summarise the release notes for people who do not program.", 1),
    ("Name three risks of storing passwords in plain text.", 1),
    ("Translate the opening hours into German and French.", 3),
    ("Draft a job advertisement for a warehouse lead, in 120 words.", 4),
    ("Which of the two contracts may be cancelled at the end of the month?", 2),
)
_UNDER_WAY = ("Explain two-factor sign-in to a customer.", "Write the out-of-office note for the holidays.")
_TOPICS = (
    *("reset a password", "change the delivery address", "cancel an order", "return a gift"),
    *("use a voucher twice", "pay by invoice", "get an invoice again", "delete an account"),
    *("change the e-mail address", "track a parcel", "report a damaged parcel", "order for a company"),
    *("combine two orders", "pick up an order", "ship abroad", "store a payment card"),
    *("leave a review", "find the size chart", "order a spare part", "extend the warranty"),
    *("split a delivery", "name a neighbour for the parcel", "pause a subscription", "change a subscription"),
    *("end a subscription", "add a second user", "print a return label", "return without a label"),
    *("exchange a size", "get a refund in cash", "use two vouchers at once", "see old orders"),
    *("order by telephone", "change the language", "report a wrong price", "ask for a sample"),
    *("book an installation", "move an appointment", "dispose of an old device", "get on the waiting list"),
)
LONG = "Write the handbook of the returns desk."
_LONG_ANSWER = "\n\n".join(
    f"## Part {number}\n\n{_SKY_ANSWERS[2]} It is so [Source 1].\n\n"
    "| step | who | until |\n|---|---|---|\n| check | desk | noon |\n\n"
    f'```python\nfor parcel in returned[{number}:]:  # each of them\n    book(parcel, "{"x" * 90}")\n```'
    for number in range(1, 4)
)
_OPENING = "Thank you for asking."
_SENTENCES = (
    "Here is how to {0}: open your account and choose the entry of that name.",
    "If you cannot sign in, write to support with your order number, and we {0} for you.",
    "It takes effect at once, and you get an e-mail that confirms it.",
)


class Author:
    """Answers and verdicts that follow from what is asked, so that each time comes to the same."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()

    def reply(self, asked: Asked) -> Reply | None:
        if asked.role == "draft":
            return None
        if LONG in asked.prompt:
            return self._of_long(asked)
        if SKY in asked.prompt:
            return self._of_sky(asked)
        for number, topic in enumerate((*_TOPICS, *(task for task, _ in _TASKS), *_UNDER_WAY)):
            if topic in asked.prompt:
                return self._of_topic(asked, number, topic)
        return None

    def _of_sky(self, asked: Asked) -> Reply:
        if asked.role == "generate":
            self._asked["sky"] += 1
            number = min(self._asked["sky"], 3)
            return Reply(_SKY_ANSWERS[number - 1], usage={"input": 310 + 240 * number, "output": 95 + 12 * number})
        number = max(at for at, answer in enumerate(_SKY_ANSWERS) if answer[-60:] in asked.prompt)
        found = {name: _entry(*said) for name, said in _SKY_VERDICTS[number].items()}
        return Reply(verdict={"criteria": found}, usage={"input": 720, "output": 180})

    def _of_long(self, asked: Asked) -> Reply:
        if asked.role == "generate":
            return Reply(_LONG_ANSWER, usage={"input": 900, "output": 4000})
        return Reply(verdict=_verdict(0.6), usage={"input": 4200, "output": 90})

    def _of_topic(self, asked: Asked, number: int, topic: str) -> Reply:
        if asked.role == "generate":
            if number % 16 == 7 and topic in _TOPICS:
                return Reply(status=400, raw={"error": {"message": "The parameter is not supported.", "code": "x"}})
            key = f"{asked.model}/{topic}"
            self._asked[key] += 1
            sentences = min(3, self._asked[key])
            opening = [_OPENING] if BETTER.endswith(f":{asked.model}") else []
            text = " ".join([*opening, *_SENTENCES[:sentences]]).format(topic)
            return Reply(text, usage={"input": 260, "output": 40 * sentences})
        sentences = sum(each.partition("{0}")[0].strip() in asked.prompt for each in _SENTENCES)
        opened = (0.12, 0.08, -0.1, 0.15)[number % 4] if _OPENING in asked.prompt else 0.0
        score = round(min(1.0, 0.44 + number * 7 % 11 * 0.028 + 0.15 * (sentences - 1) + opened), 2)
        return Reply(verdict=_verdict(score), usage={"input": 420, "output": 90})


def _entry(verdict: bool | int, evidence: str, gap: str) -> dict[str, Any]:  # noqa: FBT001 - it is the datum
    said = {"evidence": evidence, "gap": gap}
    return {**said, "met": verdict} if isinstance(verdict, bool) else {**said, "level": verdict}


def _verdict(score: float) -> dict[str, Any]:
    gaps = ["Say what to do when signing in fails.", "Say when it takes effect."]
    return {
        "evaluation_reasoning": "Correct, and polite." if score >= 0.8 else "Correct as far as it goes.",
        "improvement_suggestions": [] if score >= 0.8 else gaps,
        "score": score,
        "meets_criteria": score >= 0.8,
    }


@dataclass(frozen=True)
class Showcase:
    """The installation; a job of three iterations in it, and a run with another one to compare it with."""

    api: ApiServer
    services: Services
    job_id: str
    run_id: str
    baseline_id: str
    dataset_id: str
    running_id: str


@contextmanager
def showcase(fill_more: Callable[[Services], None] = lambda _: None, **changes: Any) -> Iterator[Showcase]:
    """Fill it and serve it. `changes` are settings; `fill_more` adds what no picture shows."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="showcase-")))
        valkey = ValkeyServer().start()
        stack.callback(valkey.remove)
        models = stack.enter_context(ModelServer())
        models.respond(Author().reply)
        settings = Settings(
            _env_file=None,  # pyright: ignore[reportCallIssue]
            data_dir=folder,
            database_url=create_sqlite(folder / "redraft.db"),
            broker_url=valkey.url,
            model=WRITER,
            evaluator_model=JUDGE,
            openai_api_key=SecretStr("sk-none"),
            openai_base_url=models.openai_url,
            anthropic_api_key=SecretStr("sk-none"),
            anthropic_base_url=models.anthropic_url,
            prices=PRICES,
            **changes,
        )
        services = build_runtime(settings)
        stack.callback(services.close)
        filled = fill(services, fill_more)
        yield Showcase(stack.enter_context(ApiServer(create_app(settings))), services, **filled)


def fill(services: Services, fill_more: Callable[[Services], None]) -> dict[str, str]:
    """Two runs on one dataset, some jobs, a few that are under way, and a worker that is alive."""
    dataset_id = uploaded(services)
    baseline_id = _run(services, dataset_id, "Support questions, baseline", WRITER)
    run_id = _run(services, dataset_id, "Support questions, larger model", BETTER)
    for task, iter_max in _TASKS:
        submitted(services, instruct=task, eval_crit=CRITERIA, iter_max=iter_max)
        drain(services)
    job_id = submitted(services, instruct=SKY, rubric=_SKY_RUBRIC, iter_max=4, score_threshold=0.9)
    drain(services)
    _set_back(services)
    _stretch(services, job_id)
    fill_more(services)
    holder, started = LeaseHolder(services.settings), ""
    with closing(Engine()) as engine:
        for task in _UNDER_WAY:
            started = submitted(services, instruct=task, eval_crit=CRITERIA)
            message = StepMessage(Step.GENERATE, started, 1)
            engine.run(started, run_step(services, holder, message, goes_on=lambda: False))
    beat(services)
    ids = {"job_id": job_id, "run_id": run_id, "baseline_id": baseline_id}
    return {**ids, "dataset_id": dataset_id, "running_id": started}


def beat(services: Services) -> None:
    """Show the worker as alive for some seconds more."""
    with services.database.write() as connection:
        workers.record_heartbeat(connection, WORKER | {"id": _WORKER_ID})


def _stretch(services: Services, job_id: str) -> None:
    """Give the calls and events of a job durations, from its changed beginning to its end."""
    with services.database.write() as connection:
        at: datetime = connection.execute(select(jobs.c.started_at).where(jobs.c.id == job_id)).scalar_one()
        of_job = select(calls.c.id, calls.c.type).where(calls.c.job_id == job_id).order_by(calls.c.id)
        ends = [at]
        for call in connection.execute(of_job).all():
            seconds = 2.4 if call.type == "generate" else 1.4
            times = {"started_at": ends[-1], "finished_at": ends[-1] + timedelta(seconds=seconds)}
            values = {**times, "latency_ms": round(seconds * 1000)}
            connection.execute(update(calls).where(calls.c.id == call.id).values(**values))
            ends.append(times["finished_at"])
        numbers = select(iterations.c.id, iterations.c.number).where(iterations.c.job_id == job_id)
        for each in connection.execute(numbers).all():
            connection.execute(
                update(iterations).where(iterations.c.id == each.id).values(created_at=ends[2 * each.number - 1])
            )
        done = 0
        for event in connection.execute(
            select(*events.c).where(events.c.job_id == job_id).order_by(events.c.seq)
        ).all():
            done += event.type in {"iteration.generated", "iteration.evaluated"}
            data = {**event.data, "at": ends[done].strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"}
            if event.type.startswith("iteration.") and "seconds" in data:
                data["seconds"] = 2.4 if event.type == "iteration.generated" else 1.4
            is_event = (events.c.job_id == job_id) & (events.c.seq == event.seq)
            connection.execute(update(events).where(is_event).values(data=data))
        connection.execute(update(jobs).where(jobs.c.id == job_id).values(finished_at=ends[-1]))


def _set_back(services: Services) -> None:
    """As if it had gone on for a while, and models took their time."""
    names = ("id", "calls")
    with services.database.write() as connection:
        newest_first = select(*(jobs.c[name] for name in names)).order_by(jobs.c.run_id.is_not(None), jobs.c.id.desc())
        for number, job in enumerate(connection.execute(newest_first).all()):
            ago = (
                timedelta(minutes=3 + 6 * number)
                if number <= len(_TASKS)
                else timedelta(minutes=45, seconds=4 * number)
            )
            finished_at = datetime.now(UTC) - ago
            started_at = finished_at - timedelta(seconds=1.9 * job.calls + number * 7 % 13 * 0.31)
            times = {"created_at": started_at, "started_at": started_at, "finished_at": finished_at}
            connection.execute(update(jobs).where(jobs.c.id == job.id).values(**times))
        for row in connection.execute(select(runs_table.c.id)).all():
            of_run = select(func.min(jobs.c.started_at), func.max(jobs.c.finished_at)).where(jobs.c.run_id == row.id)
            first, last = connection.execute(of_run).one()
            times = {"created_at": first, "finished_at": last}
            connection.execute(update(runs_table).where(runs_table.c.id == row.id).values(**times))


def submitted(services: Services, **fields: Any) -> str:
    return submit(services, GenerateAnswer.model_validate(fields)).job.id


def uploaded(services: Services) -> str:
    lines = [
        {"custom_id": topic.replace(" ", "-"), "instruct": f"A customer asks how to {topic}.", "iter_max": 3}
        for topic in _TOPICS
    ]
    data = "".join(json.dumps(line) + "\n" for line in lines) + '{"custom_id": "empty", "instruct": ""}\n'
    return datasets.import_dataset(services, BytesIO(data.encode()), "support-questions.jsonl")[0].id


def _run(services: Services, dataset_id: str, name: str, model: str) -> str:
    defaults = {"model": model, "eval_crit": CRITERIA, "resp_format": "Three sentences at most."}
    body = {"dataset_id": dataset_id, "name": name, "defaults": defaults, "max_cost_usd": 5}
    run, _ = runs.create_run(services, CreateRun.model_validate(body))
    while runs.get_run(services, run.id).status == "running":
        drain(services)
        scheduler.schedule_all(services)
    return run.id


if __name__ == "__main__":
    with showcase() as served:
        print(served.api.url, flush=True)  # noqa: T201
        signal.pause()
