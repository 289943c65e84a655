"""Builds snippets that send a request by curl, the command line and Python. No snippet contains an API key."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pprint import pformat
from typing import Any, cast

from redraft.domain.text.control_characters import reveal_in_json

SHOWN_CHARS = 50_000
KEY = "REDRAFT_API_KEY"
_WAIT_S = 60
_OPTIONS = {
    "resp_format": "--format",
    "eval_crit": "--crit",
    "profile": "--profile",
    "iter_max": "--iter-max",
    "score_threshold": "--threshold",
    "model": "--model",
    "evaluator_model": "--evaluator-model",
    "candidates": "--candidates",
    "system_instructions": "--system",
    "reference": "--reference",
}


@dataclass(frozen=True, slots=True)
class Snippet:
    name: str
    text: str


def snippets_of(body: Mapping[str, Any], base_url: str, *, with_key: bool) -> list[Snippet]:
    """Return three snippets that send a request to the API at `base_url`. Return none if the request is too long."""
    text = reveal_in_json(json.dumps(body, ensure_ascii=False, indent=2))
    if len(text) > SHOWN_CHARS:
        return []
    url = f"{base_url}/v1/generate-answer"
    return [
        Snippet("curl", _curl(url, text, with_key=with_key)),
        Snippet("CLI", _command(body, text)),
        Snippet("Python", _python(base_url, body, with_key=with_key)),
    ]


def _curl(url: str, text: str, *, with_key: bool) -> str:
    key = f' \\\n  -H "Authorization: Bearer ${KEY}"' if with_key else ""
    headers = f"-H 'Content-Type: application/json' -H 'Prefer: wait={_WAIT_S}'"
    return f"curl {shlex.quote(url)} \\\n  {headers}{key} \\\n  --data-binary {shlex.quote(text)}"


def _command(body: Mapping[str, Any], text: str) -> str:
    task = str(body.get("instruct", ""))
    is_plain = body.keys() <= {"instruct", *_OPTIONS} and "\\u" not in text
    # Not every request can be written as options. Other requests are passed on stdin
    if not is_plain or not task or task.startswith("-"):
        return f"redraft ask --file - <<'JSON'\n{text}\nJSON"
    words = ["redraft ask", shlex.quote(task)]
    for name, value in body.items():
        if name != "instruct":
            values: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [value]
            words += [f"{_OPTIONS[name]} {shlex.quote(str(each))}" for each in values]
    return " \\\n  ".join(words)


def _python(base_url: str, body: Mapping[str, Any], *, with_key: bool) -> str:
    key = f"  # the key is in {KEY}" if with_key else ""
    return f"""from redraft_client import Redraft  # the package redraft-client

request = {pformat(dict(body), width=96, sort_dicts=False)}
with Redraft({base_url!r}) as redraft:{key}
    print(redraft.generate_answer(**request).text)"""
