"""Ids: a prefix that names the kind of resource, and a UUIDv7, so that ids sort by the time of their creation."""

import hashlib
import re
from typing import NewType

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
    "observation": "obs_",
    "key": "key_",
    "worker": "wrk_",
    "webhook delivery": "whd_",
    "check": "chk_",
}


def new_id(noun: str) -> str:
    return f"{PREFIXES[noun]}{uuid_utils.uuid7().hex}"


def id_from_seed(noun: str, seed: str) -> str:
    """Return the same id for the same seed, so that a repeated insert violates the primary key."""
    return f"{PREFIXES[noun]}{hashlib.sha256(seed.encode(errors='replace')).hexdigest()[:32]}"


# The version ff, and a trace or span of zeros, are not valid
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")


def trace_id_of(traceparent: str | None) -> str | None:
    """Read the trace id of a W3C `traceparent`. A value that is not valid has none: W3C prescribes to ignore it."""
    found = _TRACEPARENT.fullmatch(traceparent or "")
    return found.group(1) if found else None
