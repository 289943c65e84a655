"""All settings, read once from the environment, `.env` and `redraft.toml`. Nothing else reads them."""

import hashlib
import os
import tempfile
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, LiteralString, Self
from urllib.parse import quote, unquote

import platformdirs
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from redraft.setting_values import (
    broker_error,
    database_error,
    environment_errors,
    http_error,
    key_error,
    places_error,
    secrets_error,
)

# What a Unix socket's path may have, in bytes: 107 on Linux, 103 on macOS.
_SOCKET_PATH_BYTES = 100


def _either(name: str) -> Any:
    """A setting that is also read without the prefix, as the provider's SDK does."""
    return AliasChoices(f"REDRAFT_{name}", name)


class ModelPrice(BaseModel):
    """USD per million tokens; `cached_input` defaults to `input`."""

    model_config = ConfigDict(frozen=True)

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached_input: float | None = Field(default=None, ge=0)

    @property
    def is_free(self) -> bool:
        """Whether a call costs nothing, however many tokens it takes."""
        return not (self.input or self.output or self.cached_input)


class ModelLimit(BaseModel):
    """What a model is asked at most, by all workers together."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    requests_per_minute: int | None = Field(default=None, ge=1)
    calls_at_once: int | None = Field(default=None, ge=1)


_FITTING = (("heartbeat_s", "lease_s", 3), ("sweep_s", "lease_s", 1))
"""So many times the first timer must fit into the second: a lease outlives two lost heartbeats."""


_CHECKS: dict[str, tuple[LiteralString, Callable[[str], str | None]]] = {
    "broker_url": ("bad_address", broker_error),
    "database_url": ("bad_address", database_error),
    "openai_base_url": ("bad_address", http_error),
    "anthropic_base_url": ("bad_address", http_error),
    "openai_api_key": ("bad_key", key_error),
    "anthropic_api_key": ("bad_key", key_error),
    "webhook_secret": ("invalid_webhook_secret", secrets_error),
    "webhook_allow_private": ("invalid_network", places_error),
}
"""What a pattern cannot say of a value, with the code of its error: all that read settings refuse the same values."""


class Settings(BaseSettings):
    """Each field is an environment variable with the prefix `REDRAFT_`; `docs/settings.md` lists them."""

    model_config = SettingsConfigDict(
        env_prefix="REDRAFT_",
        env_file=".env",
        env_ignore_empty=True,
        toml_file="redraft.toml",
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
        allow_inf_nan=False,
        populate_by_name=True,
    )

    data_dir: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("redraft")),
        description="Folder of the embedded database, broker and model server.",
    )
    database_url: str = Field(
        default="", description="sqlite:///… or postgresql://…; empty: SQLite in the data folder."
    )
    broker_url: str = Field(
        default="",
        description="redis://…, rediss://… (TLS), valkey://…, valkeys://… or unix:///path; "
        "empty: an embedded Valkey in the data folder.",
    )
    model: str = Field(
        default="", description="Generator when a job names none; empty: chosen by the keys that are set."
    )
    evaluator_model: str = Field(
        default="", description="Evaluator when a job names none; empty: the generator's first."
    )
    openai_api_key: SecretStr | None = Field(
        default=None, validation_alias=_either("OPENAI_API_KEY"), description="Key for openai:… models."
    )
    openai_base_url: str | None = Field(
        default=None,
        validation_alias=_either("OPENAI_BASE_URL"),
        description="Any server that speaks Chat Completions.",
    )
    anthropic_api_key: SecretStr | None = Field(
        default=None, validation_alias=_either("ANTHROPIC_API_KEY"), description="Key for anthropic:… models."
    )
    anthropic_base_url: str | None = Field(
        default=None, validation_alias=_either("ANTHROPIC_BASE_URL"), description="Any server that speaks Messages."
    )
    local_model: Path | None = Field(
        default=None, description="A GGUF file for local:… models; empty: the bundled SmolLM2-135M."
    )
    local_context_tokens: int = Field(default=8192, ge=512, description="Context of the local model, in tokens.")
    anthropic_max_output_tokens: int = Field(
        default=8192,
        ge=1,
        description="Sent to Anthropic when a job sets no max_output_tokens, since it is required there.",
    )
    evaluator_max_output_tokens: int = Field(
        default=4096,
        ge=64,
        description="Output tokens of an evaluator call, or of a draft, on the local model at most 1024; "
        "a second asking gets twice as many.",
    )
    criteria_per_call: Literal["auto", "all", "one"] = Field(
        default="auto", description="How many criteria of a rubric an evaluator call judges; auto: all up to four."
    )
    profiles_dir: Path | None = Field(
        default=None, description="Folder of own evaluation profiles, each a sub-folder; docs/profiles.md."
    )
    prices: dict[str, ModelPrice] = Field(
        default_factory=dict[str, ModelPrice],
        description='Own prices, USD per million tokens: {"openai:my-model": {"input": 0.2, "output": 0.8}}.',
    )
    model_limits: dict[str, ModelLimit] = Field(
        default_factory=dict[str, ModelLimit],
        description="Limits that all workers share; openai:* counts all models that it fits together: "
        '{"openai:my-model": {"requests_per_minute": 60, "calls_at_once": 5}}.',
    )
    circuit_failures: int = Field(
        default=5, ge=1, description="Passing failures of a model in a row before a worker slows its calls to it."
    )
    circuit_wait_s: float = Field(
        default=2.0, gt=0, description="First wait before such a model is tried again; doubles, up to 60 s."
    )
    connect_timeout_s: float = Field(default=10.0, gt=0, description="Longest wait for a provider's connection.")
    first_byte_timeout_s: float = Field(
        default=180.0,
        gt=0,
        description="Longest wait for an answer's first byte, or a stream's first event; unstreamed thinking counts.",
    )
    call_timeout_s: float = Field(default=180.0, gt=0, description="Longest model call; the job's deadline may cut it.")
    step_attempts_max: int = Field(
        default=6, ge=1, description="Model calls per step before a passing failure ends the job."
    )
    retry_wait_s: float = Field(default=1.0, gt=0, description="First wait before a retry; doubles, with jitter.")
    retry_wait_max_s: float = Field(default=60.0, gt=0, description="Longest wait before a retry.")
    worker_concurrency: int = Field(default=64, ge=1, le=1000, description="Steps in flight per worker process.")
    lease_s: float = Field(default=30.0, ge=1, description="How long a claimed step belongs to a silent worker.")
    heartbeat_s: float = Field(default=8.0, gt=0, description="How often a worker extends its leases.")
    sweep_s: float = Field(default=1.5, gt=0, description="How often a worker looks for due, lost and late jobs.")
    ring_again_s: float = Field(
        default=10.0, gt=0, description="First pause before a step that nobody took is rung for again; doubles."
    )
    retention_days: float | None = Field(
        default=None,
        gt=0,
        le=36_500,
        description="Workers remove jobs that ended so many days ago, a few at a time; empty: all are kept.",
    )
    run_give_up_s: float = Field(
        default=600.0,
        gt=0,
        description="How long items that no worker can start are tried again before their run ends without them.",
    )
    shutdown_grace_s: float = Field(default=20.0, ge=0, description="How long a stopping worker finishes its calls.")
    deaf_after_s: float = Field(
        default=120.0,
        ge=5,
        description="A worker with free threads that has heard nothing for so long, though the broker answers, ends.",
    )
    frozen_after_s: float = Field(
        default=60.0, ge=1, description="A worker process in which no thread has run for so long ends."
    )
    host: str = Field(default="127.0.0.1", description="Address the API listens on.")
    port: int = Field(default=8000, ge=0, le=65535, description="Port the API listens on; 0: any free one.")
    root_path: str = Field(
        default="",
        max_length=200,
        pattern=r"^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$",
        description="Path under which a proxy shows the API and its pages, such as /redraft, whether or not the proxy"
        " takes it off; empty: none.",
    )
    require_auth: bool | None = Field(
        default=None, description="Whether API keys are needed; empty: off on loopback, on elsewhere."
    )
    requests_per_minute: int = Field(
        default=600, ge=0, description="Requests that an API key may make, at all API processes together; 0: no limit."
    )
    streams_max: int = Field(
        default=100,
        ge=1,
        description="Event streams that an API key, or an address without one, may have open at one API process.",
    )
    webhook_secret: SecretStr | None = Field(
        default=None,
        description="Signs webhooks: whsec_ and the base64 of 24 to 64 random bytes; several, separated by spaces, "
        "while receivers change from one to another. Without it jobs with a webhook are refused.",
    )
    webhook_allow_private: str = Field(
        default="",
        description="Networks (CIDR) and host names that webhooks may reach beside public addresses, "
        "separated by spaces.",
    )
    max_body_bytes: int = Field(default=8_000_000, ge=1024, description="Largest request body.")
    dataset_max_bytes: int = Field(
        default=1024**3, ge=1024, description="Largest dataset that is uploaded; it is kept on disk while it is read."
    )
    log_format: Literal["auto", "console", "json"] = Field(
        default="auto", description="auto: coloured lines on a terminal, JSON elsewhere."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(default="INFO", description="Least level logged.")

    @field_validator(*_CHECKS)
    @classmethod
    def _is_usable(cls, value: str | SecretStr | None, info: ValidationInfo) -> str | SecretStr | None:
        code, error_of = _CHECKS[info.field_name or ""]
        plain = value.get_secret_value() if isinstance(value, SecretStr) else value
        error = error_of(plain) if plain else None
        if error:
            raise PydanticCustomError(code, "{words}.", {"words": error})
        return value

    @model_validator(mode="after")
    def _environment_works(self) -> Self:
        for name, words in environment_errors(os.environ):
            raise PydanticCustomError("bad_environment", "{name} {words}.", {"name": name, "words": words})
        return self

    @model_validator(mode="after")
    def _timers_fit(self) -> Self:
        for shorter, longer, times in _FITTING:
            low, high = getattr(self, shorter), getattr(self, longer)
            if low * times > high:
                words = (
                    f"REDRAFT_{longer.upper()} ({high:g} s) must be at least {times} times"
                    f" REDRAFT_{shorter.upper()} ({low:g} s), or live workers are taken for lost"
                )
                raise PydanticCustomError("timers_do_not_fit", "{words}", {"words": words})
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        toml = TomlConfigSettingsSource(settings_cls)
        return init_settings, env_settings, dotenv_settings, toml, file_secret_settings

    @property
    def is_embedded_broker(self) -> bool:
        return not self.broker_url

    @property
    def effective_database_url(self) -> str:
        return self.database_url or f"sqlite:///{self.data_dir.absolute() / 'redraft.db'}"

    @property
    def is_embedded_database(self) -> bool:
        """Whether nobody but the one worker of the data folder works on the database, told outright or not."""
        own = f"sqlite:///{self.data_dir.absolute() / 'redraft.db'}"
        return self.effective_database_url == own

    @property
    def broker_socket(self) -> Path:
        """In the data folder; where that path is too long for a socket, in a private folder under its hash."""
        folder = self.data_dir.absolute()
        if len(os.fsencode(folder / "valkey.sock")) <= _SOCKET_PATH_BYTES:
            return folder / "valkey.sock"
        name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"redraft-{os.getuid()}" / f"{name}.sock"

    @property
    def effective_broker_url(self) -> str:
        return self.broker_url or f"unix://{quote(str(self.broker_socket))}"

    @property
    def is_loopback(self) -> bool:
        return self.host in {"127.0.0.1", "localhost", "::1"}

    @property
    def is_auth_required(self) -> bool:
        return not self.is_loopback if self.require_auth is None else self.require_auth

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never be written down: the providers' keys, webhooks' secrets, and the passwords in addresses."""
        keys = (self.openai_api_key, self.anthropic_api_key)
        urls = (self.database_url, self.broker_url, self.openai_base_url, self.anthropic_base_url)
        passwords = [_password_of(url) for url in urls if url]
        decoded = [unquote(password) for password in passwords]
        webhooks = self.webhook_secret.get_secret_value().split() if self.webhook_secret else []
        return (*(key.get_secret_value().strip() for key in keys if key), *webhooks, *passwords, *decoded)


def _password_of(url: str) -> str:
    """The password of an address as it is written there; empty when there is none."""
    before_host = url.partition("://")[2].rpartition("@")[0]
    return before_host.partition(":")[2]


def unknown_names() -> dict[str, str | None]:
    """Variables that look like settings and are none, each with the setting that may be meant."""
    known = {f"REDRAFT_{name.upper()}" for name in Settings.model_fields}
    strange = [name for name in os.environ if name.upper().startswith("REDRAFT_") and name.upper() not in known]
    return {name: next(iter(get_close_matches(name.upper(), known, n=1)), None) for name in sorted(strange)}
