"""`demo`: two jobs through HTTP on this machine, with nothing set up before."""

import contextlib
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from redraft.cli import output
from redraft.cli.admin.serving import ending_on_signals
from redraft.cli.exits import Exit
from redraft.cli.sessions import load_settings
from redraft.cli.views import live
from redraft.domain.jobs.states import say_stop_reason
from redraft.errors import RedraftError, Unavailable

if TYPE_CHECKING:
    import httpx2

    from redraft.operations.jobs.resources import Event
    from redraft.providers.catalog import ProviderCatalog
    from redraft.settings import Settings


def _check(name: str, text: str, kind: str, value: str | int, **rest: bool) -> dict[str, Any]:
    return {"id": name, "kind": "check", "text": text, "check": {"kind": kind, "value": value}, **rest}


# Short, since a tiny model soon loses its way. Its verdicts are arbitrary, but it can follow what checks say: a first
# answer has the names by luck only, a later one from the messages of the checks that failed. An answer that it is
# shown it would repeat, hence `fresh`. What the instruction says is required, so that no answer is accepted without it.
# How far other words, seeds and threads change this: docs/decisions/0005.
_BY_CHECKS: dict[str, Any] = {
    "revision": {"strategy": "fresh"},
    "stop": {"plateau_patience": 0},
    "iter_max": 4,
    "score_threshold": 0.8,
    "sampling": {"temperature": 0, "max_output_tokens": 400},
}
_POEM: dict[str, Any] = {
    "instruct": "Write a short poem about the moon.",
    "eval_crit": "It is a short poem about the moon.",
    "iter_max": 2,
    "score_threshold": 0.8,
    "sampling": {"max_output_tokens": 400},
}
# The tiny model writes of its task rather than of the moon: what it must not say, it is not told, or it would say it.
_MOON: dict[str, Any] = {
    "instruct": "Why does the moon shine?",
    "rubric": [
        _check("earth", "It names the planet of the moon", "contains", "Earth", required=True),
        _check("sun", "It says where the light comes from", "contains", "sun", required=True),
        _check("task", "It says nothing of its task", "not_contains", "task", required=True, hidden=True),
    ],
    **_BY_CHECKS,
}
# "He has no more than 40 words to complete his story" met all other checks: a limit that the model is told, it repeats.
_OF_ITS_TASK = r"(?i)\b(words?|tasks?|stor(y|ies)|instruct\w*|names? a|gives? the)\b"
_SAILOR: dict[str, Any] = {
    "instruct": "Tell me about a sailor and his ship.",
    "rubric": [
        _check("sailor", "It gives the sailor's name", "contains", "Tom", required=True),
        _check("ship", "It gives the ship's name", "contains", "Aurora", required=True),
        _check("country", "It names a country", "contains", "Norway"),
        _check("short", "It is short", "max_chars", 300, required=True, hidden=True),
        _check("task", "It says nothing of its task", "not_regex", _OF_ITS_TASK, required=True, hidden=True),
    ],
    **_BY_CHECKS,
}
# A tiny model may not find an end; that is no fault of the service.
_MODELS_OWN_FAULT = "output_truncated"
_API_READY_WITHIN_S = 30.0
_STREAM_READ_S = 60.0
_STREAMS_PER_JOB = 3


def demo(
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Keep the database and the logs in this folder.", show_default="a temporary folder"),
    ] = None,
) -> None:
    """Run two jobs on this machine and show them.

    It runs the API, a worker, the broker and the database, and removes their data afterwards.
    """
    started_at = time.monotonic()
    with ending_on_signals("\nEnding the demo (Ctrl-C again: at once).\n"), _folder(data_dir) as folder:
        failed = _run(_settings(folder))
    output.show(f"The demo took {output.span(time.monotonic() - started_at)}.")
    if failed:
        output.say(f"{failed} of 2 jobs failed.", "bold red")
        raise typer.Exit(Exit.ERROR)
    program = _program()
    output.show(f"Next: `{program} ask 'Your question'`, or `{program} serve` for the API.")


def _program() -> str:
    """What to type for this program: `make demo` calls it by a path that the shell does not look in."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "redraft" and not shutil.which("redraft") else "redraft"


@contextlib.contextmanager
def _folder(given: Path | None) -> Generator[Path]:
    """The data folder: the given one, or one that is removed afterwards."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="redraft-demo-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _settings(folder: Path) -> "Settings":
    """The user's models; everything else on this machine, whatever is set."""
    settings = load_settings()
    here: dict[str, Any] = {
        "data_dir": folder,
        "broker_url": "",
        "database_url": "",
        "host": "127.0.0.1",
        "require_auth": False,
        # After the last job no call is in flight, and after Ctrl-C nobody waits for one
        "shutdown_grace_s": 0.5,
    }
    return settings.model_copy(update=here)


def _catalog(settings: "Settings") -> "ProviderCatalog":
    from redraft.providers.catalog import ProviderCatalog

    return ProviderCatalog(settings)


def _run(settings: "Settings") -> int:
    """Do the jobs one after the other; how many failed."""
    import httpx2

    from redraft import embedded
    from redraft.logs import configure_logs

    configure_logs(settings.log_level if output.is_debug.get() else "CRITICAL", settings.log_format)
    is_local = _introduce(settings)
    jobs = (_MOON if is_local else _POEM, _SAILOR)
    log = settings.data_dir.absolute() / "worker.log"
    with (
        embedded.stack(settings, worker_log=log),
        _api(settings) as url,
        httpx2.Client(base_url=url, timeout=_STREAM_READ_S) as client,
    ):
        output.show(f"The API answers at {url}; a Celery worker, Valkey and SQLite run behind it.")
        return sum(not _do_job(client, f"{number} of {len(jobs)}", body) for number, body in enumerate(jobs, 1))


def _introduce(settings: "Settings") -> bool:
    """Say which model works; whether it is the bundled one."""
    catalog = _catalog(settings)
    model = catalog.default_model()
    catalog.check_configured(model, "/model")
    output.show(f"Redraft's demo, with {model}.", "bold")
    if model.provider == "local":
        output.show(
            "This is the bundled model. It is tiny (135 million parameters): its answers are clumsy and often wrong,"
            " and it is too small to evaluate them, so checks in code do. What you see is how the loop works.",
            "yellow",
        )
        output.show(
            "For real answers set OPENAI_API_KEY or ANTHROPIC_API_KEY, and REDRAFT_MODEL to choose the model,"
            " such as openai:NAME or anthropic:NAME."
        )
    return model.provider == "local"


@contextlib.contextmanager
def _api(settings: "Settings") -> Generator[str]:
    """The API in a thread, on a free port."""
    from redraft.embedded.apis import Api
    from redraft.embedded.listeners import listen, url_of

    ready = threading.Event()
    with listen(settings.host, 0) as listener:
        server = Api(settings, listener, ready.set)
        thread = threading.Thread(target=server.serve_until_stopped, name="api", daemon=True)
        thread.start()
        try:
            if not ready.wait(_API_READY_WITHIN_S):
                raise Unavailable("The API does not start; `redraft --debug demo` shows why.", code="no_api")
            yield url_of(listener, settings.host)
        finally:
            server.should_exit = True
            thread.join()


def _do_job(client: "httpx2.Client", number: str, body: dict[str, Any]) -> bool:
    """Submit, follow, tell; whether there is an answer."""
    started_at = time.monotonic()
    output.show(f"\nJob {number}: {body['instruct']}", "bold")
    _print_criteria(body)
    answer = client.post("/v1/generate-answer", json=body)
    if not answer.is_success:
        raise RedraftError(f"POST /v1/generate-answer answered {answer.status_code}: {answer.text}")
    urls = answer.json()["urls"]
    _follow(client, urls["events"], body["score_threshold"])
    is_well = _tell(client.get(urls["self"]).json(), time.monotonic() - started_at)
    for line in gain_of_checks(client.get(urls["iterations"]).json()["data"]):
        output.show(line)
    return is_well


def _print_criteria(body: dict[str, Any]) -> None:
    if "rubric" not in body:
        output.show(f"Criteria: {body['eval_crit']}")
        return
    output.show("Checks in code. What is in brackets the generator learns only from a failed check:")
    for each in body["rubric"]:
        check = each["check"]
        value = "a pattern" if check["kind"].endswith("regex") else check["value"]
        output.show(f"  {each['id']}: {each['text']} ({check['kind'].replace('_', ' ')} {value})")


def _follow(client: "httpx2.Client", url: str, threshold: float) -> None:
    console = output.stdout()
    view = live.TerminalView(console, threshold) if console.is_terminal else None
    with view or contextlib.nullcontext():
        for event in _events(client, url):
            if view:
                view.show(event)
            else:
                for text, _ in live.lines_of(event, threshold):
                    output.show(text)


def _events(client: "httpx2.Client", url: str) -> Iterator["Event"]:
    """All events up to the last one. A stream that ends before it is taken up where it ended."""
    from redraft.operations.jobs.resources import Event

    after = 0
    for _ in range(_STREAMS_PER_JOB):
        with client.sse(url, params={"after": after}) as stream:
            for each in filter(attrgetter("id"), stream):
                event = Event(seq=int(each.id), type=each.event, data=json.loads(each.data))
                after = event.seq
                yield event
                if event.type == "done":
                    return
    raise Unavailable("The job did not end in time.", code="demo_too_slow")


def _tell(job: dict[str, Any], seconds: float) -> bool:
    """The end of a job in words; whether it is well."""
    usage, result, error = job["usage"], job["result"], job["error"]
    if result:
        output.show("Final answer:", "bold")
        output.show(result["final_answer"])
    calls = f"{usage['calls']} model calls, {usage['input_tokens'] + usage['output_tokens']:,} tokens"
    output.show(f"Stop reason: {say_stop_reason(job['stop_reason'])}; {calls}, {output.span(seconds)}.")
    if result and not result["success"]:
        output.show("No answer met all that is required: this is the best one.", "yellow")
    if error:
        output.say(f"{error['title']}: {output.one_line(error['detail'])}", "red")
    return error is None or error["code"] == _MODELS_OWN_FAULT


def gain_of_checks(iterations: Sequence[dict[str, Any]]) -> Iterator[str]:
    """What the checks of a rubric were good for, in words; nothing without checks.

    Args:
        iterations: as the API tells them, in order, one candidate each.
    """
    checked = [each for each in iterations if each["evaluation"] and each["evaluation"]["checks"]]
    if not checked:
        return
    yield f"The first answer was: {output.one_line(checked[0]['answer'])}"
    met = [sum(check["passed"] for check in each["evaluation"]["checks"]) for each in checked]
    parts = [
        f"{count} of {len(each['evaluation']['checks'])} in iteration {each['number']}"
        for each, count in zip(checked, met, strict=True)
    ]
    yield f"Checks met: {', '.join(parts)}. {_words_of_gain(checked, max(met) - met[0])}"
    if all(each["evaluation"]["evaluator_model"] is None for each in checked):
        yield "No model evaluated the answers: the checks cost no call."


def _words_of_gain(checked: Sequence[dict[str, Any]], gain: int) -> str:
    if len(checked) == 1:
        return "There is only one answer."
    messages = {check["message"] for each in checked for check in each["evaluation"]["checks"] if not check["passed"]}
    told = sum(message in (each["feedback_given"] or "") for each in checked for message in messages)
    source = f"The later prompts held {told} {'message' if told == 1 else 'messages'} of failed checks"
    return f"{source}; the best answer meets {gain} more." if gain else f"{source}; no answer meets more."
