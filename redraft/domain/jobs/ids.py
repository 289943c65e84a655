"""Ids: a prefix that names the kind of resource, and a UUIDv7, so that ids sort by the time of their creation."""

import hashlib
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
