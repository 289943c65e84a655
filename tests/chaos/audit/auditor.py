"""Checks every invariant from the rows and from the provider's own log, and says in plain words what is broken."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from typing import Any

from sqlalchemy import select

from redraft.storage.engine.bulk_tables import run_items, runs
from redraft.storage.engine.tables import TOKENS, events, jobs, webhook_deliveries
from redraft.storage.engine.unit_of_work import Database
from tests.chaos.audit.rows import JobRows, Row, fingerprint, is_speculative, read_all
from tests.chaos.driver import Submitted
from tests.model_server.logbook import Entry
from tests.support.receiver import Hit, is_signed

_SUMS = (*TOKENS, "cost_nano_usd")
_BEGUN = "iteration.started"
_TERMINAL = frozenset({"succeeded", "failed", "canceled"})
# What lies between two statements of one unit of work while the machine is busy
_MOMENT = timedelta(seconds=0.5)
# What lies between a decision to call and the request's arrival
_WAY = timedelta(seconds=1.0)
_LATEST = timedelta(seconds=60)
_ROUNDING = 1e-9

Check = Callable[[JobRows], Iterator[str]]


def audit(database: Database, submitted: Sequence[Submitted], requests: Sequence[Entry]) -> list[str]:
    """Everything that is wrong, one line each; nothing is the only good answer."""
    found = read_all(database, requests)
    problems = audit_submissions(submitted, found)
    for job_id, rows in found.items():
        problems += [f"{job_id} ({rows.case}): {words}" for check in CHECKS for words in check(rows)]
    return problems


def audit_submissions(submitted: Sequence[Submitted], found: dict[str, JobRows]) -> list[str]:
    """Each request that was accepted is one job, and there are no others."""
    problems = [words for seen in submitted for words in _submission(seen, found)]
    return [*problems, *_strangers(found, submitted)]


def _submission(seen: Submitted, found: dict[str, JobRows]) -> Iterator[str]:
    case = seen.plan.case
    yield from (f"case {case}: {words}" for words in seen.surprises)
    jobs = {job_id for job_id, rows in found.items() if rows.case == case}
    if not seen.job_ids:
        yield f"case {case}: was never accepted, in {seen.attempts} attempts: {dict(seen.answers)}"
    if len(jobs) > 1:
        yield f"case {case}: one Idempotency-Key made {len(jobs)} jobs: {', '.join(sorted(jobs))}"
    for job_id in set(seen.job_ids) - jobs:
        yield f"case {case}: job {job_id} was accepted, and is not there"
    if seen.is_cancel_answered:
        yield from (
            f"case {case}: cancel was answered, and the job is {found[job_id].job['status']}"
            for job_id in jobs
            if found[job_id].job["status"] not in _TERMINAL
        )


def audit_webhooks(database: Database, hits: Sequence[Hit]) -> list[str]:
    """Each end that a webhook asks for was sent, signed, and the same each time; what is pending waits for a worker."""
    bodies: dict[str, set[bytes]] = defaultdict(set)
    for hit in hits:
        bodies[hit.id].add(hit.body)
    problems = [f"webhook {hit.id} has another signature than its body" for hit in hits if not is_signed(hit)]
    problems += [f"webhook {name} was sent with {len(each)} bodies" for name, each in bodies.items() if len(each) > 1]
    told = select(events.c.job_id, events.c.seq, jobs.c.request).join(jobs, jobs.c.id == events.c.job_id)
    with database.read() as connection:
        entries = connection.execute(select(webhook_deliveries)).mappings().all()
        ends = {
            (job_id, seq)
            for job_id, seq, request in connection.execute(told.where(events.c.type == "done"))
            if request["webhook"]
        }
    problems += [f"{job_id}: event {seq} is not in the outbox" for job_id, seq in ends - {_place(e) for e in entries}]
    for entry in entries:
        is_held = entry["status"] == "pending" and entry["lease_expires_at"] is not None
        if not is_held and (entry["status"] != "delivered" or entry["id"] not in bodies):
            problems.append(f"{entry['job_id']}: webhook {entry['id']} is {entry['status']}: {entry['last_error']}")
    return problems


def _place(entry: Row) -> tuple[str, int]:
    return entry["job_id"], entry["seq"]


def audit_runs(database: Database) -> list[str]:
    """Each run has ended, and each of its items is one job that has ended."""
    with database.read() as connection:
        open_runs = list(connection.scalars(select(runs.c.id).where(runs.c.finished_at.is_(None))))
        lost = connection.execute(
            select(run_items.c.number, run_items.c.status, jobs.c.status.label("job_status"))
            .outerjoin(jobs, jobs.c.id == run_items.c.job_id)
            .where(run_items.c.status.is_distinct_from(jobs.c.status))
        ).all()
    return [f"{run_id}: the run has not ended" for run_id in open_runs] + [
        f"item {row.number} is {row.status}, its job {row.job_status}" for row in lost
    ]


def _strangers(found: dict[str, JobRows], submitted: Sequence[Submitted]) -> Iterator[str]:
    known = {seen.plan.case for seen in submitted}
    yield from (f"{job_id}: nobody submitted it" for job_id, rows in found.items() if rows.case not in known)


def has_ended(rows: JobRows) -> Iterator[str]:
    """Invariant 1: nothing accepted is lost."""
    job = rows.job
    if job["status"] not in _TERMINAL:
        yield f"is {job['status']} at {job['step']} {job['step_no']}, lease until {job['lease_expires_at']}"
    elif job["finished_at"] is None or job["stop_reason"] is None or job["lease_owner"] or job["lease_expires_at"]:
        yield "has ended, but says not when or why, or somebody still holds its lease"


def ends_for_a_reason(rows: JobRows) -> Iterator[str]:
    """No deadline passes before its time."""
    job = rows.job
    if job["stop_reason"] == "deadline_exceeded" and job["finished_at"] < job["deadline_at"]:
        yield f"ended for its deadline, {job['deadline_at'] - job['finished_at']} before it"


def ends_soon_after_its_deadline(rows: JobRows) -> Iterator[str]:
    """Somebody notices that a deadline has passed."""
    job = rows.job
    if job["finished_at"] and job["finished_at"] > job["deadline_at"] + _LATEST:
        yield f"ended {job['finished_at'] - job['deadline_at']} after its deadline"


def calls_are_reserved(rows: JobRows) -> Iterator[str]:
    """Invariant 2: no request to the provider that the ledger does not know of."""
    reserved = Counter(fingerprint(call["request"]) for call in rows.ledger)
    asked = Counter(fingerprint(entry.body) for entry in rows.requests)
    for body, count in asked.items():
        if count > reserved[body]:
            yield f"the provider was asked {count} times for what was reserved {reserved[body]} times: {body[:200]}"


def nothing_is_paid_twice(rows: JobRows) -> Iterator[str]:
    """Invariant 2: one reply per slot, and no call opened when its reply had been committed."""
    for slot, made in rows.of_slot().items():
        ok = [call for call in made if call["status"] == "ok"]
        if len(ok) > 1:
            yield f"slot {slot} has {len(ok)} replies that count"
        stored = [rows.committed_at[call["id"]] for call in made if call["status"] in {"ok", "dup"}]
        first = min(stored, default=None)
        late = [call for call in made if first is not None and call["started_at"] > first + _MOMENT]
        yield from (f"slot {slot} was called for again, {call['started_at'] - first} after its reply" for call in late)


def nobody_asks_for_what_is_there(rows: JobRows) -> Iterator[str]:
    """Invariants 2 and 5, from the provider's log: no request for a reply that is committed, or for a canceled job."""
    settled_at = _settled_at(rows)
    for entry in rows.requests:
        asked_at = datetime.fromtimestamp(entry.started_at, UTC)
        settled = settled_at.get(fingerprint(entry.body), asked_at)
        if asked_at > settled + _WAY:
            yield f"the provider was asked for {entry.role} {asked_at - settled} after its reply had been committed"
        if rows.job["status"] == "canceled" and asked_at > rows.job["finished_at"] + _WAY:
            yield f"the provider was asked for {entry.role} {asked_at - rows.job['finished_at']} after the cancel"


def _settled_at(rows: JobRows) -> dict[str, datetime]:
    """When nobody had reason to send a body any more. Candidates share one: all their slots must have a reply."""
    never = datetime.max.replace(tzinfo=UTC) - _WAY
    found: dict[str, datetime] = {}
    for made in rows.of_slot().values():
        stored = [rows.committed_at[call["id"]] for call in made if call["status"] in {"ok", "dup"}]
        for body in {fingerprint(call["request"]) for call in made}:
            found[body] = max(found.get(body, min(stored, default=never)), min(stored, default=never))
    return found


def calls_are_closed(rows: JobRows) -> Iterator[str]:
    """The ledger of a job that has ended leaves nothing open."""
    opened = [call["id"] for call in rows.ledger if call["status"] == "started"]
    if opened:
        yield f"has ended, and {len(opened)} of its calls are still open: {', '.join(opened)}"


def results_are_the_holders(rows: JobRows) -> Iterator[str]:
    """Invariant 3: what was written is what the ledger's one reply says, and tokens only grow from step to step."""
    for each in rows.iterations:
        ordinary, speculative = (
            rows.ok(each["number"], each["candidate"], "generate", speculative=kind) for kind in (False, True)
        )
        texts = [reply["reply_text"] for reply in (ordinary, speculative) if reply]
        if rows.job["kind"] != "evaluate_answer" and each["answer"] not in texts:
            yield f"iteration {each['number']}.{each['candidate']} is not the reply that the ledger holds"
    for evaluation, iteration in _evaluated(rows):
        if (
            evaluation["status"] == "ok"
            and evaluation["reused_from"] is None
            and not _rests_on(evaluation, iteration, rows)
        ):
            yield f"the verdict on iteration {iteration['number']} is not the reply that the ledger holds"
    yield from _tokens_grow(rows)


def _evaluated(rows: JobRows) -> list[tuple[Row, Row]]:
    by_id = {each["id"]: each for each in rows.iterations}
    return [(each, by_id[each["iteration_id"]]) for each in rows.evaluations]


def _rests_on(evaluation: Row, iteration: Row, rows: JobRows) -> bool:
    """Whether a verdict is the evaluator's reply; of several evaluators, or several replies, it lies between them."""
    request = rows.job["request"]
    place = iteration["number"], iteration["candidate"]
    is_audit = evaluation["role"] == "audit"
    reply = rows.ok(*place, "audit" if is_audit else "evaluate")
    if request["rubric"]:
        return reply is not None
    if is_audit or (not request["evaluation"]["panel"] and request["evaluation"]["samples"] == 1):
        return _score(reply) == evaluation["score"]
    made = [
        call for call in rows.ledger if (call["iteration"], call["candidate"], call["step"]) == (*place, "evaluate")
    ]
    scores = [score for call in made if call["status"] == "ok" and (score := _score(call)) is not None]
    return bool(scores) and min(scores) - _ROUNDING <= evaluation["score"] <= max(scores) + _ROUNDING


def _score(reply: Row | None) -> Any:
    try:
        return json.loads(reply["reply_text"])["score"] if reply else None
    except ValueError:
        # It was of no use, and the evaluator was asked again
        return None


def _tokens_grow(rows: JobRows) -> Iterator[str]:
    # A repeated step may use the reply of an earlier holder; steps themselves come one after the other
    order = {"generate": 0, "evaluate": 1}
    by_step: dict[tuple[int, int], list[int]] = {}
    for call in rows.ledger:
        if call["step"] == "audit":
            continue
        # The step that evaluates an iteration makes the speculative calls of the next one
        step = (call["iteration"] - 1, 1) if is_speculative(call) else (call["iteration"], order[call["step"]])
        by_step.setdefault(step, []).append(call["lease_token"])
    steps = sorted(by_step)
    for before, after in pairwise(steps):
        if max(by_step[before]) >= min(by_step[after]):
            yield f"step {after} was called for under a token no newer than that of step {before}"
    # The audit comes after the loop, and a continuation after the audit
    for call in rows.ledger:
        evaluated = by_step.get((call["iteration"], order["evaluate"]), [0])
        if call["step"] == "audit" and max(evaluated) >= call["lease_token"]:
            yield f"the audit of iteration {call['iteration']} was called for under a token no newer than its verdict's"


def events_are_gapless(rows: JobRows) -> Iterator[str]:
    """Numbers 1 to n, `done` once and last, each iteration told once."""
    numbers = [event["seq"] for event in rows.events]
    if numbers != list(range(1, rows.job["event_seq"] + 1)):
        yield f"has events {numbers}, and its row says {rows.job['event_seq']}"
    types = [event["type"] for event in rows.events]
    if types.count("done") != 1 + rows.job["continuations"] or types[-1] != "done":
        yield f"tells its end {types.count('done')} times, and at last {types[-1] if types else 'nothing'}"
    # A continuation may begin an iteration once more
    goes = list(accumulate(type_ == "job.continued" for type_ in types))
    begun = [(go, e["data"].get("iteration")) for go, e in zip(goes, rows.events, strict=True) if e["type"] == _BEGUN]
    told = Counter(begun)
    yield from (f"tells the start of iteration {key[1]} {count} times" for key, count in told.items() if count > 1)


def counters_are_sums(rows: JobRows) -> Iterator[str]:
    """The job's counters are the sums over its ledger."""
    job = rows.job
    sums = {name: sum(call[name] or 0 for call in rows.ledger) for name in _SUMS}
    sums |= {"calls": len(rows.ledger), "unpriced_calls": sum(map(_is_unpriced, rows.ledger))}
    yield from (f"{name} is {job[name]}, its calls say {sum_}" for name, sum_ in sums.items() if job[name] != sum_)


def _is_unpriced(call: Row) -> bool:
    """Nobody knows what it cost: its outcome is not known, or no answer came."""
    if call["status"] == "error":
        return call["http_status"] is None and call["cost_nano_usd"] is None
    return call["cost_nano_usd"] is None


def result_is_the_best(rows: JobRows) -> Iterator[str]:
    """The loop's own rules: numbers without gaps, the best score, and the answer that has it."""
    job, result = rows.job, rows.job["result"]
    numbers = sorted({each["number"] for each in rows.iterations})
    if numbers != list(range(1, len(numbers) + 1)) or len(numbers) > job["iteration_limit"]:
        yield f"has iterations {numbers} of at most {job['iteration_limit']}"
    scores = [
        (evaluation["score"], iteration["number"], iteration["answer"])
        for evaluation, iteration in _evaluated(rows)
        if evaluation["score"] is not None and evaluation["role"] != "audit"
    ]
    best = max((score for score, _, _ in scores), default=None)
    if job["best_score"] != best:
        yield f"has the best score {job['best_score']}, its verdicts say {best}"
    if scores and result is None:
        yield "has a judged answer, and no result"
    if result is not None and best is not None:
        yield from _result(job, result, best, scores)


def _result(job: Row, result: dict[str, Any], best: float, scores: list[tuple[float, int, str]]) -> Iterator[str]:
    told = (result["final_score"], result["best_iteration"], result["final_answer"])
    if told not in scores or told[0] != best:
        yield f"gives the answer of iteration {told[1]} with {told[0]}, the best score is {best}"
    if job["continuations"]:
        # What was accepted stays so, whatever ends the continuation
        return
    # The mean of several scores may miss by a rounding error what it meets
    is_enough = best >= job["request"]["score_threshold"] - _ROUNDING
    # One candidate may be accepted when the deadline ends the evaluation of another one
    may_differ = {"canceled", "deadline_exceeded", "error"} if job["request"].get("candidates", 1) > 1 else {"canceled"}
    if (job["stop_reason"] == "accepted") != is_enough and job["stop_reason"] not in may_differ:
        yield f"ended with {job['stop_reason']}, its best score is {best}"


def budget_is_kept(rows: JobRows) -> Iterator[str]:
    """What is known to be spent is within the job's tokens."""
    job, allowed = rows.job, rows.job["request"]["limits"]["max_tokens"]
    spent = job["input_tokens"] + job["output_tokens"]
    if allowed is not None and spent > allowed:
        yield f"has spent {spent} tokens of {allowed}"


def canceled_means_no_more_calls(rows: JobRows) -> Iterator[str]:
    """Invariant 5: no call is opened once the cancel was committed."""
    if rows.job["status"] != "canceled":
        return
    at = rows.job["finished_at"]
    late = [call for call in rows.ledger if call["started_at"] > at + _MOMENT]
    yield from (f"was canceled, and a call was opened {call['started_at'] - at} later" for call in late)
    written = [each for each in (*rows.iterations, *rows.evaluations) if each["created_at"] > at + _MOMENT]
    yield from (f"was canceled, and {each['id']} was written later" for each in written)


CHECKS: tuple[Check, ...] = (
    has_ended,
    ends_for_a_reason,
    ends_soon_after_its_deadline,
    calls_are_reserved,
    nothing_is_paid_twice,
    nobody_asks_for_what_is_there,
    calls_are_closed,
    results_are_the_holders,
    events_are_gapless,
    counters_are_sums,
    result_is_the_best,
    budget_is_kept,
    canceled_means_no_more_calls,
)
