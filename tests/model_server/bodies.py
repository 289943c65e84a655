"""The dialects' reply bodies."""

import itertools
import json
from collections.abc import Mapping
from typing import Any

from tests.model_server.requests import Asked
from tests.model_server.scripts import Reply, Script

_numbers = itertools.count(1)


def body_of(asked: Asked, reply: Reply, script: Script | None = None) -> Any:
    """The whole JSON body of a reply that is not raw."""
    script = script or Script()
    text = text_of(asked, reply)
    usage = dict(reply.usage or _count(asked, text))
    usage["input"] = min(usage["input"], script.context_tokens or usage["input"])
    build = {"openai": _openai, "responses": _responses, "anthropic": _anthropic}[asked.dialect]
    body = build(asked, text, reply.finish, usage)
    return {k: v for k, v in body.items() if k != "usage"} if "no_usage" in script.quirks else body


def text_of(asked: Asked, reply: Reply) -> str:
    if reply.verdict is not None:
        return json.dumps(reply.verdict)
    if reply.score is not None:
        return json.dumps(filled(asked.schema or _PLAIN_VERDICT, reply.score))
    return reply.text if reply.text is not None else ""


def error_body(asked: Asked, status: int, message: str) -> dict[str, Any]:
    kind = "invalid_request_error" if status == 400 else "authentication_error"
    if asked.dialect == "anthropic":
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_test"}
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def filled(schema: Mapping[str, Any], score: float, name: str = "", root: Mapping[str, Any] | None = None) -> Any:
    """An instance of a schema: numbers become the score, booleans say whether it is at least 0.8."""
    root = root or schema
    if "$ref" in schema:
        return filled(root["$defs"][schema["$ref"].rsplit("/", 1)[-1]], score, name, root)
    if "anyOf" in schema:
        return filled(schema["anyOf"][0], score, name, root)
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {key: filled(child, score, key, root) for key, child in schema.get("properties", {}).items()}
    if kind == "array":
        return [] if score >= 0.8 else [filled(schema.get("items", {}), score, name, root)]
    plain = {"number": score, "integer": round(score), "boolean": score >= 0.8, "null": None}
    return plain.get(str(kind), f"{name} at {score}")


_PLAIN_VERDICT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "evaluation_reasoning": {"type": "string"},
        "improvement_suggestions": {"type": "array", "items": {"type": "string"}},
        "meets_criteria": {"type": "boolean"},
        "score": {"type": "number"},
    },
}


def _count(asked: Asked, text: str) -> dict[str, int]:
    return {"input": 1 + len(asked.prompt) // 4, "output": 1 + len(text) // 4}


def _openai(asked: Asked, text: str, finish: str | None, usage: Mapping[str, int]) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "refusal": None}
    return {
        "id": f"chatcmpl-{next(_numbers)}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": asked.model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish or "stop"}],
        "usage": {
            "prompt_tokens": usage["input"],
            "completion_tokens": usage["output"],
            "total_tokens": usage["input"] + usage["output"],
            "prompt_tokens_details": _input_details(usage),
            "completion_tokens_details": {"reasoning_tokens": usage.get("reasoning", 0)},
        },
    }


def _input_details(usage: Mapping[str, int]) -> dict[str, int]:
    return {"cached_tokens": usage.get("cached", 0), "cache_write_tokens": usage.get("written", 0)}


def _responses(asked: Asked, text: str, finish: str | None, usage: Mapping[str, int]) -> dict[str, Any]:
    """A finish other than "completed" is the reason why the response is incomplete."""
    is_whole = finish in {None, "completed"}
    content = [{"type": "output_text", "text": text, "annotations": []}]
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
    return {
        "id": f"resp_{next(_numbers)}",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": asked.model,
        "status": "completed" if is_whole else "incomplete",
        "error": None,
        "incomplete_details": None if is_whole else {"reason": finish},
        "output": [{"type": "reasoning", "id": "rs_1", "summary": []}, *([message] if text else [])],
        "usage": {
            "input_tokens": usage["input"],
            "input_tokens_details": _input_details(usage),
            "output_tokens": usage["output"],
            "output_tokens_details": {"reasoning_tokens": usage.get("reasoning", 0)},
            "total_tokens": usage["input"] + usage["output"],
        },
    }


def _anthropic(asked: Asked, text: str, finish: str | None, usage: Mapping[str, int]) -> dict[str, Any]:
    return {
        "id": f"msg_{next(_numbers)}",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": [{"type": "text", "text": text}] if text else [],
        "stop_reason": finish or "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage["input"],
            "output_tokens": usage["output"],
            "cache_read_input_tokens": usage.get("cached", 0),
            "cache_creation_input_tokens": usage.get("written", 0),
            "output_tokens_details": {"thinking_tokens": usage.get("reasoning", 0)},
        },
    }
