"""Runs the official SDK in plain threads, and stores nothing. This is the upper bound of the throughput."""

import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
from openai import OpenAI

from benchmarks.loads import Load, Outcome, evaluate_body, generate_body
from benchmarks.parts import CpuMeter

_CONNECTIONS_PER_CLIENT = 20


def run_bare(url: str, load: Load, *, sharded: bool) -> Outcome:
    """Run each job in its own thread. Threads share one client, or (sharded) several clients of 20 connections each."""
    count = max(1, load.in_flight // _CONNECTIONS_PER_CLIENT) if sharded else 1
    clients = [_client(url, load.in_flight // count + 1) for _ in range(count)]

    def job(number: int) -> None:
        client = clients[number % count]
        for _ in range(2):
            draft = client.chat.completions.create(**generate_body(number))  # pyright: ignore[reportCallIssue, reportArgumentType]
            client.chat.completions.create(**evaluate_body(number, draft.choices[0].message.content or ""))  # pyright: ignore[reportCallIssue, reportArgumentType]

    meter, started_at = CpuMeter(), time.monotonic()
    with ThreadPoolExecutor(max_workers=load.in_flight) as pool:
        list(pool.map(job, range(load.jobs)))
    seconds = time.monotonic() - started_at
    outcome = Outcome(seconds, meter.seconds(), load.calls)
    for client in clients:
        client.close()
    return outcome


def _client(url: str, connections: int) -> OpenAI:
    limits = httpx2.Limits(max_connections=connections, max_keepalive_connections=connections)
    http_client = httpx2.Client(limits=limits, timeout=60)
    return OpenAI(api_key="none", base_url=url, max_retries=0, http_client=http_client)
