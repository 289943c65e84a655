"""A plain Celery app for comparison: two tasks that call each other, one PostgreSQL insert per call.

It is what one would write first: early ack, threads pool, no leases, no memo. A worker that dies loses its jobs.
"""

import json
import os
from typing import Any

import httpx2
from celery import Celery
from openai import OpenAI
from sqlalchemy import create_engine, text

from benchmarks.loads import SCORES, evaluate_body, generate_body

BROKER, DATABASE, MODEL = (os.environ.get(f"PLAIN_{name}", "") for name in ("BROKER", "DATABASE", "MODEL"))
CONNECTIONS = int(os.environ.get("PLAIN_CONNECTIONS", "100"))

app = Celery("plain", broker=BROKER)
app.conf.update(
    task_serializer="json", task_ignore_result=True, worker_prefetch_multiplier=1, task_default_queue="plain"
)


ENGINE = create_engine(DATABASE, pool_size=10, max_overflow=10) if DATABASE else None
LIMITS = httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
CLIENT = OpenAI(
    api_key="none", base_url=MODEL or None, max_retries=0, http_client=httpx2.Client(limits=LIMITS, timeout=60)
)


def _call(job: int, iteration: int, kind: str, body: dict[str, Any]) -> str:
    reply = CLIENT.chat.completions.create(**body)
    answer = reply.choices[0].message.content or ""
    with ENGINE.begin() as connection:
        connection.execute(
            text("INSERT INTO plain_calls (job, iteration, kind, request, reply) VALUES (:j, :i, :k, :q, :r)"),
            {"j": job, "i": iteration, "k": kind, "q": json.dumps(body), "r": answer},
        )
    return answer


@app.task(name="plain.generate")
def generate(job: int, iteration: int) -> None:
    answer = _call(job, iteration, "generate", generate_body(job))
    evaluate.delay(job, iteration, answer)


@app.task(name="plain.evaluate")
def evaluate(job: int, iteration: int, answer: str) -> None:
    _call(job, iteration, "evaluate", evaluate_body(job, answer))
    if iteration < len(SCORES):
        generate.delay(job, iteration + 1)
        return
    with ENGINE.begin() as connection:
        connection.execute(text("INSERT INTO plain_done (job) VALUES (:j)"), {"j": job})
