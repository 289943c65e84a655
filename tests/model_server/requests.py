"""What a client asked, read from either wire format."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

Dialect = Literal["openai", "responses", "anthropic"]
Role = Literal["generate", "evaluate", "draft"]
# Chat Completions also at the paths of Groq and Azure, Gemini, and OpenRouter
_BASES = ("/v1", "/openai/v1", "/v1beta/openai", "/api/v1")
PATHS: dict[str, Dialect] = {
    **{f"{base}/chat/completions": "openai" for base in _BASES},
    "/v1/responses": "responses",
    "/v1/messages": "anthropic",
}

_CASE = re.compile(r"\[\[case:([^\]\s]+)\]\]")
_VERDICT_KEY = re.compile(r"score|criteri|passed|verdict|grounded|comprehensive|confidence|reasoning", re.IGNORECASE)


@dataclass(frozen=True)
class Asked:
    """One model request, in no dialect's terms."""

    dialect: Dialect
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    path: str = ""

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @cached_property
    def schema(self) -> dict[str, Any] | None:
        """The schema the reply must have; None: free text."""
        if self.dialect == "openai":
            wanted = self.body.get("response_format") or {}
            named = (wanted.get("json_schema") or {}).get("schema")
        elif self.dialect == "responses":
            named = ((self.body.get("text") or {}).get("format") or {}).get("schema")
        else:
            named = ((self.body.get("output_config") or {}).get("format") or {}).get("schema")
        return named or self._schema_in_words

    @property
    def _schema_in_words(self) -> dict[str, Any] | None:
        """What a server without structured output is told in the prompt."""
        _, marker, rest = self.prompt.partition("Its JSON Schema:\n")
        return json.JSONDecoder().raw_decode(rest)[0] if marker else None

    @cached_property
    def role(self) -> Role:
        """Evaluators ask for a verdict's schema; a generator's own has an answer, or none of a verdict's keys.

        Who drafts a job asks for one with a task and a rubric.
        """
        keys = (self.schema or {}).get("properties") or {}
        if {"instruct", "rubric"} <= keys.keys():
            return "draft"
        return "evaluate" if "answer" not in keys and any(_VERDICT_KEY.search(key) for key in keys) else "generate"

    @cached_property
    def system(self) -> str:
        if self.dialect == "anthropic":
            return plain_text(self.body.get("system"))
        if self.dialect == "responses":
            return plain_text(self.body.get("instructions"))
        return "\n".join(plain_text(m.get("content")) for m in self.messages if m.get("role") == "system")

    @property
    def is_streamed(self) -> bool:
        return self.body.get("stream") is True

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.body.get("messages") or self.body.get("input") or [])

    @cached_property
    def prompt(self) -> str:
        """Everything the model was told, as one text: for assertions and markers."""
        turns = [plain_text(m.get("content")) for m in self.messages]
        return "\n".join(turns if self.dialect == "openai" else [self.system, *turns])

    @cached_property
    def case(self) -> str:
        """The marker `[[case:abc]]` of the job this request belongs to, or ''."""
        found = _CASE.search(self.prompt)
        return found.group(1) if found else ""


def plain_text(content: Any) -> str:
    """A string, or the text blocks of a list joined."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))


def read_body(raw: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(raw)
    except ValueError:
        return None
    return body if isinstance(body, dict) else None
