"""A minimal Celery app for comparison: a task per step that calls the model, inserts one row, and sends the next task.

The app uses a pool of threads and early acknowledgement, and has no leases and no recorded replies. So a worker that
dies loses its jobs.
"""

import os
from queue import SimpleQueue

import httpx2
import psycopg
from celery import Celery
from openai import OpenAI

from benchmarks.loads import SCORES

TABLE = "CREATE TABLE steps (job int, iteration int, step text, reply text, PRIMARY KEY (job, iteration, step))"
QUEUE = "minimal"
_CONNECTIONS = 20
_INSERT = "INSERT INTO steps VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
_WORDS = {"generate": "Answer the question.", "evaluate": "Score the answer as JSON."}

app = Celery(QUEUE, broker=os.environ.get("MINIMAL_BROKER"))
app.conf.update(task_ignore_result=True, task_default_queue=QUEUE, worker_hijack_root_logger=False)


class _Parts:
    """The clients of a worker process. The process that submits jobs needs no clients."""

    connections: SimpleQueue[psycopg.Connection[tuple[object, ...]]] = SimpleQueue()
    model: OpenAI


def connect() -> None:
    """Open the connections of this process."""
    limits = httpx2.Limits(max_connections=5000, max_keepalive_connections=5000, keepalive_expiry=60)
    http_client = httpx2.Client(limits=limits, timeout=120)
    url = os.environ["MINIMAL_MODEL"]
    _Parts.model = OpenAI(api_key="none", base_url=url, max_retries=0, http_client=http_client)
    for _ in range(_CONNECTIONS):
        _Parts.connections.put(psycopg.connect(os.environ["MINIMAL_DATABASE"], autocommit=True))


if "MINIMAL_MODEL" in os.environ:
    connect()


def store(job: int, iteration: int, step: str, reply: str) -> None:
    connection = _Parts.connections.get()
    try:
        connection.execute(_INSERT, (job, iteration, step, reply))
    finally:
        _Parts.connections.put(connection)


def _call(job: int, iteration: int, step: str) -> None:
    messages = [{"role": "user", "content": f"{_WORDS[step]} [[case:{job}]]"}]
    reply = _Parts.model.chat.completions.create(model=step, messages=messages)  # pyright: ignore[reportArgumentType, reportCallIssue]
    store(job, iteration, step, reply.choices[0].message.content or "")


@app.task(name="minimal.generate")
def generate(job: int, iteration: int) -> None:
    _call(job, iteration, "generate")
    evaluate.delay(job, iteration)


@app.task(name="minimal.evaluate")
def evaluate(job: int, iteration: int) -> None:
    _call(job, iteration, "evaluate")
    if iteration < len(SCORES):
        generate.delay(job, iteration + 1)
    else:
        store(job, 0, "done", "")
