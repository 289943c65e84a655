"""Compares the batches of the ledger with the batches that the provider got."""

from collections import Counter
from collections.abc import Sequence

from sqlalchemy import select

from redraft.storage.engine.bulk_tables import batches
from redraft.storage.engine.tables import calls
from redraft.storage.engine.unit_of_work import Database
from tests.model_server.batch_store import Batch


def audit_batches(database: Database, provided: Sequence[Batch]) -> list[str]:
    """Everything that is wrong when all runs have ended: calls that were sent twice, lost, or are still open."""
    with database.read() as connection:
        query = select(calls.c.id, calls.c.status, calls.c.batch_id).where(calls.c.batch_id.is_not(None))
        rows = connection.execute(query).mappings().all()
        ours = connection.execute(select(batches)).mappings().all()
    sent = Counter(line.custom_id for batch in provided for line in batch.lines)
    answered = Counter[str]()
    for batch in provided:
        answered.update(batch.answered)
    ledger = {row["id"]: row for row in rows}
    batch_of = {line.custom_id: batch.id for batch in provided for line in batch.lines}
    provider_ids = {row["id"]: row["provider_batch_id"] for row in ours}
    problems = [f"call {call_id} was submitted {count} times" for call_id, count in sent.items() if count > 1]
    problems += [f"call {call_id} was paid {count} times" for call_id, count in answered.items() if count > 1]
    problems += [f"the provider has a request {call_id} that the ledger has not" for call_id in sent.keys() - ledger]
    problems += [f"batch {row['id']} is {row['status']}" for row in ours if row["status"] != "ended"]
    for call_id, row in ledger.items():
        if row["status"] == "started":
            problems.append(f"call {call_id} is open")
        if (row["status"] == "ok") != (call_id in answered):
            problems.append(
                f"call {call_id} is {row['status']}, and the provider answered it {answered[call_id]} times"
            )
        if call_id in sent and provider_ids[row["batch_id"]] != batch_of[call_id]:
            problems.append(f"call {call_id} is in {batch_of[call_id]}, and the ledger says another batch")
    return problems
