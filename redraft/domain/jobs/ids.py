"""Ids: a prefix that names the kind of resource, and a UUIDv7, so that ids sort by the time of their creation."""

import hashlib
import re
from typing import NamedTuple, NewType

import uuid_utils

JobId = NewType("JobId", str)

PREFIXES = {
    "job": "job_",
    "iteration": "itr_",
    "evaluation": "eval_",
    "call": "call_",
    "rating": "rat_",
    "dataset": "ds_",
    "run": "run_",
    "batch": "btc_",
    "observation": "obs_",
    "key": "key_",
    "worker": "wrk_",
    "webhook delivery": "whd_",
    "check": "chk_",
    "tuning": "tun_",
    "schedule": "sch_",
}


def new_id(noun: str) -> str:
    return f"{PREFIXES[noun]}{uuid_utils.uuid7().hex}"


def id_from_seed(noun: str, seed: str) -> str:
    """Return the same id for the same seed, so that a repeated insert violates the primary key."""
    return f"{PREFIXES[noun]}{hashlib.sha256(seed.encode(errors='replace')).hexdigest()[:32]}"


# The version ff, and a trace or span of zeros, are not valid
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")


class TraceParent(NamedTuple):
    """The span that a job belongs to, in the trace of its caller."""

    trace_id: str
    span_id: str
    flags: str

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"

    @property
    def is_sampled(self) -> bool:
        return bool(int(self.flags, 16) & 1)


def read_traceparent(text: str | None) -> TraceParent | None:
    """Read a W3C `traceparent`. Return None for an invalid value, because W3C requires receivers to ignore it."""
    found = _TRACEPARENT.fullmatch(text or "")
    return TraceParent(*found.groups()) if found else None
