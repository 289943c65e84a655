"""Turns chat messages into the fields of a request."""

from collections.abc import Sequence
from typing import Any

from redraft.importing.texts import NotCarried

SYSTEM_ROLES = ("system", "developer")


def request_of(messages: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return `instruct`, `conversation` and `system_instructions` from messages. A message is a role and a text.

    Raises NotCarried if the messages are not turns of user and assistant that end with the user's.
    """
    system = [text for role, text in messages if role in SYSTEM_ROLES]
    turns = [(role, text) for role, text in messages if role not in SYSTEM_ROLES]
    wanted = ["user" if at % 2 == 0 else "assistant" for at in range(len(turns))]
    if [role for role, _ in turns] != wanted or len(turns) % 2 == 0:
        raise NotCarried("the messages are not turns of user and assistant that end with the user's")
    texts = [text for _, text in turns]
    if not texts[-1].strip():
        raise NotCarried("the last message is empty")
    fields: dict[str, Any] = {"instruct": texts[-1]}
    if any(text.strip() for text in system):
        fields["system_instructions"] = "\n\n".join(system)
    if len(texts) > 1:
        fields["conversation"] = [list(pair) for pair in zip(texts[:-1:2], texts[1::2], strict=True)]
    return fields
