"""Bodies of refusals as providers and servers send them."""

from typing import Any


def openai(message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def vllm(message: str) -> dict[str, Any]:
    return {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400}


def llama_cpp(message: str) -> dict[str, Any]:
    return {"error": {"code": 400, "message": message, "type": "invalid_request_error"}}


def anthropic(message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}, "request_id": "r"}


def forbidden(*place: str) -> dict[str, Any]:
    error = {"type": "extra_forbidden", "loc": list(place), "msg": "Extra inputs are not permitted"}
    return {"detail": [{**error, "input": "max_tokens and temperature are unsupported"}]}
