"""All settings, read once from the environment, `.env` and `redraft.toml`. Those of batches: `setting_values.py`."""

import os
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, LiteralString, Self
from urllib.parse import quote, unquote

import platformdirs
from dotenv import dotenv_values
from pydantic import AliasChoices, Field, PrivateAttr, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from redraft import setting_values
from redraft.endpoints import (
    ANY_MODEL,
    CheckEndpoint,
    CheckName,
    Endpoint,
    EndpointName,
    ModelLimit,
    ModelPrice,
    check_references,
    keys_of,
    secrets_of,
)


def _either(name: str) -> Any:
    """Return the two names of a setting. The SDK of the provider also reads the name without the prefix."""
    return AliasChoices(f"REDRAFT_{name}", name)


# The first timer, multiplied by the number, must not exceed the second timer, so a lease survives two lost heartbeats
_FITTING = (("heartbeat_s", "lease_s", 3), ("sweep_s", "lease_s", 1))

# Checks that a pattern cannot express, each with the code of its error
_CHECKS: dict[str, tuple[LiteralString, Callable[[str], str | None]]] = {
    "broker_url": ("bad_address", setting_values.broker_error),
    "database_url": ("bad_address", setting_values.database_error),
    "openai_base_url": ("bad_address", setting_values.http_error),
    "anthropic_base_url": ("bad_address", setting_values.http_error),
    "otel_exporter_otlp_endpoint": ("bad_address", setting_values.http_error),
    "openai_api_key": ("bad_key", setting_values.key_error),
    "anthropic_api_key": ("bad_key", setting_values.key_error),
    "webhook_secret": ("invalid_webhook_secret", setting_values.secrets_error),
    "webhook_allow_private": ("invalid_network", setting_values.places_error),
}


class Settings(setting_values.BatchSettings, BaseSettings):
    """Each field is an environment variable with the prefix `REDRAFT_`. docs/settings.md lists the settings."""

    model_config = SettingsConfigDict(
        env_prefix="REDRAFT_",
        env_file=".env",
        env_ignore_empty=True,
        toml_file="redraft.toml",
        # A shared `.env` file also has variables of other programs
        extra="ignore",
        frozen=True,
        # An error message must not repeat a key or a password
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
        default="", description="Default generator model; empty: a model of the first provider with a key, or local."
    )
    evaluator_model: str = Field(
        default="", description="Default evaluator model; empty: the first generator of the job."
    )
    openai_api_key: SecretStr | None = Field(
        default=None, validation_alias=_either("OPENAI_API_KEY"), description="Key for openai:… models."
    )
    openai_base_url: str | None = Field(
        default=None, validation_alias=_either("OPENAI_BASE_URL"), description="URL of a Chat Completions API."
    )
    anthropic_api_key: SecretStr | None = Field(
        default=None, validation_alias=_either("ANTHROPIC_API_KEY"), description="Key for anthropic:… models."
    )
    anthropic_base_url: str | None = Field(
        default=None, validation_alias=_either("ANTHROPIC_BASE_URL"), description="URL of a Messages API."
    )
    endpoints: dict[EndpointName, Endpoint] = Field(
        default_factory=dict[str, Endpoint],
        description="Further servers, for NAME:model; docs/compatible-servers.md: "
        '{"groq": {"format": "openai", "base_url": "https://api.groq.com/openai/v1", "api_key_env": "GROQ_API_KEY"}}.',
    )
    http_checks: dict[CheckName, CheckEndpoint] = Field(
        default_factory=dict[str, CheckEndpoint],
        description="Servers that evaluate answers, for checks of the kind http; docs/checks.md: "
        '{"tone": {"url": "https://checks.example.com/tone", "secret_env": "TONE_SECRET", "timeout_s": 5}}.',
    )
    local_model: Path | None = Field(
        default=None, description="A GGUF file for local:… models; empty: the bundled SmolLM2-135M."
    )
    local_context_tokens: int = Field(default=8192, ge=512, description="Context length of the local model, in tokens.")
    anthropic_max_output_tokens: int = Field(
        default=8192, ge=1, description="Output limit of calls to Anthropic (which requires one) if a job sets none."
    )
    evaluator_max_output_tokens: int = Field(
        default=4096,
        ge=64,
        description="Output limit of calls of evaluators and drafts; at most 1024 on the local model. "
        "A repair call has twice the limit.",
    )
    criteria_per_call: Literal["auto", "all", "one"] = Field(
        default="auto", description="Criteria of a rubric per evaluator call; auto: all if at most four, else one."
    )
    profiles_dir: Path | None = Field(
        default=None, description="Folder with a subfolder for each evaluation profile of yours; docs/profiles.md."
    )
    templates_dir: Path | None = Field(
        default=None, description="Folder with a subfolder for each generator template of yours; docs/templates.md."
    )
    prices: dict[str, ModelPrice] = Field(
        default_factory=dict[str, ModelPrice],
        description='Prices of models, in USD per million tokens: {"openai:my-model": {"input": 0.2, "output": 0.8}}. '
        "cached_input is the price of input that a provider reads from its cache (default: input), cache_write_input "
        "the price of input that it writes to this cache (default: 1.25 times input), batch_factor the price of a "
        "batched call as a share of the live price (default: 0.5).",
    )
    model_limits: dict[str, ModelLimit] = Field(
        default_factory=dict[str, ModelLimit],
        description="Rate limits of models for all workers together; openai:* is one limit for all matching models: "
        '{"openai:my-model": {"requests_per_minute": 60, "calls_at_once": 5}}.',
    )
    circuit_failures: int = Field(
        default=5, ge=1, description="Consecutive transient failures of a model that open its circuit breaker."
    )
    circuit_wait_s: float = Field(
        default=2.0, gt=0, description="First wait of an open circuit breaker before a probe; doubles, up to 60 s."
    )
    connect_timeout_s: float = Field(default=10.0, gt=0, description="Timeout of a connection attempt to a provider.")
    first_byte_timeout_s: float = Field(
        default=180.0, gt=0, description="Timeout of the first byte or first stream event; includes silent thinking."
    )
    call_timeout_s: float = Field(
        default=180.0, gt=0, description="Timeout of a model call; the deadline of the job may shorten it."
    )
    step_attempts_max: int = Field(
        default=6, ge=1, description="Attempts of a step before a transient failure ends the job."
    )
    retry_wait_s: float = Field(default=1.0, gt=0, description="First wait before a retry; doubles, with jitter.")
    retry_wait_max_s: float = Field(default=60.0, gt=0, description="Longest wait before a retry.")
    worker_concurrency: int = Field(default=256, ge=1, le=5000, description="Concurrent steps per worker process.")
    task_events: bool = Field(default=False, description="Workers send Celery's task events, like `redraft worker -E`.")
    lease_s: float = Field(
        default=30.0, ge=1, description="Lease length: without a heartbeat for this time, a worker loses its steps."
    )
    heartbeat_s: float = Field(default=8.0, gt=0, description="Pause between heartbeats, which extend the leases.")
    sweep_s: float = Field(
        default=1.5, gt=0, description="Pause between sweeps for due steps, lost workers and passed deadlines."
    )
    ring_again_s: float = Field(
        default=10.0, gt=0, description="First pause before workers are notified again of an unclaimed step; doubles."
    )
    retention_days: float | None = Field(
        default=None, gt=0, le=36_500, description="Days after which workers remove ended jobs; empty: never."
    )
    run_give_up_s: float = Field(
        default=600.0, gt=0, description="Time in which workers retry items that cannot start; then their run ends."
    )
    shutdown_grace_s: float = Field(
        default=20.0, ge=0, description="Time in which a stopping worker may finish its model calls."
    )
    deaf_after_s: float = Field(
        default=120.0,
        ge=5,
        description="A worker with free slots exits if it gets no message for this time although the broker answers.",
    )
    frozen_after_s: float = Field(
        default=60.0, ge=1, description="A worker process exits if none of its threads runs for this time."
    )
    host: str = Field(default="127.0.0.1", description="Address that the API listens on.")
    port: int = Field(default=8000, ge=0, le=65535, description="Port that the API listens on; 0: any free port.")
    root_path: str = Field(
        default="",
        max_length=200,
        pattern=r"^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$",
        description="Path of the API and its pages behind a proxy, such as /redraft; the proxy may keep or remove it.",
    )
    require_auth: bool | None = Field(
        default=None, description="Whether the API requires keys; empty: yes, except on loopback."
    )
    requests_per_minute: int = Field(
        default=600, ge=0, description="Request limit of an API key over all API processes; 0: no limit."
    )
    streams_max: int = Field(
        default=100,
        ge=1,
        description="Maximum number of open event streams per API process, for each API key or address without key.",
    )
    otel_exporter_otlp_endpoint: str = Field(
        default="",
        validation_alias=_either("OTEL_EXPORTER_OTLP_ENDPOINT"),
        description="URL of an OTLP receiver (HTTP); switches on traces of jobs (extra otel); docs/tracing.md.",
    )
    otel_exporter_otlp_headers: SecretStr | None = Field(
        default=None,
        validation_alias=_either("OTEL_EXPORTER_OTLP_HEADERS"),
        description="Headers for the OTLP receiver: name=value pairs, separated by commas.",
    )
    otel_logs_exporter: str = Field(
        default="", validation_alias=_either("OTEL_LOGS_EXPORTER"), description="none: export no evaluation events."
    )
    trace_content: bool = Field(default=False, description="Traces contain prompts, answers and reasons of verdicts.")
    webhook_secret: SecretStr | None = Field(
        default=None,
        description="Secret that signs webhooks: whsec_ and the base64 of 24 to 64 random bytes. For a rotation, "
        "several secrets, separated by spaces. Without a secret, jobs with a webhook are refused.",
    )
    webhook_allow_private: str = Field(
        default="",
        description="Networks (CIDR) and host names that webhooks may reach beside public addresses, "
        "separated by spaces.",
    )
    max_body_bytes: int = Field(default=8_000_000, ge=1024, description="Maximum size of a request body, in bytes.")
    attachment_max_bytes: int = Field(default=5_000_000, ge=1, description="Largest attachment of a job, in bytes.")
    attachments_max_bytes: int = Field(
        default=5_000_000,
        ge=1,
        description="Maximum size of all attachments of a job, in bytes. In a request body they take a third more "
        "(base64), so raise REDRAFT_MAX_BODY_BYTES too.",
    )
    attachments_max: int = Field(default=20, ge=0, le=100, description="Maximum number of attachments of a job.")
    dataset_max_bytes: int = Field(
        default=1024**3, ge=1024, description="Largest uploaded dataset; the file is kept on disk during its import."
    )
    log_format: Literal["auto", "console", "json"] = Field(
        default="auto", description="auto: coloured lines on a terminal, otherwise JSON."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(default="INFO", description="Lowest logged level.")

    _endpoint_keys: dict[str, str] = PrivateAttr(default_factory=dict[str, str])
    _check_secrets: dict[str, str] = PrivateAttr(default_factory=dict[str, str])

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
        for name, words in setting_values.environment_errors(os.environ):
            raise PydanticCustomError("bad_environment", "{name} {words}.", {"name": name, "words": words})
        return self

    @model_validator(mode="after")
    def _keys_are_usable(self) -> Self:
        check_references(self.endpoints, self.model_limits, self.prices)
        if self.endpoints or self.http_checks:
            environment = {**dotenv_values(".env"), **os.environ}
            self._endpoint_keys = keys_of(self.endpoints, environment)
            self._check_secrets = secrets_of(self.http_checks, environment)
        return self

    @model_validator(mode="after")
    def _timers_fit(self) -> Self:
        for shorter, longer, times in _FITTING:
            low, high = getattr(self, shorter), getattr(self, longer)
            if low * times > high:
                words = (
                    f"REDRAFT_{longer.upper()} ({high:g} s) must be at least {times} times"
                    f" REDRAFT_{shorter.upper()} ({low:g} s), or live workers count as lost"
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
        toml = _TomlFile(settings_cls)
        return init_settings, env_settings, dotenv_settings, toml, file_secret_settings

    @property
    def is_embedded_broker(self) -> bool:
        return not self.broker_url

    @property
    def _own_database_url(self) -> str:
        return f"sqlite:///{self.data_dir.absolute() / 'redraft.db'}"

    @property
    def effective_database_url(self) -> str:
        return self.database_url or self._own_database_url

    @property
    def is_embedded_database(self) -> bool:
        """Whether the database is the SQLite file in the data folder. Only one worker uses this database."""
        return self.effective_database_url == self._own_database_url

    @property
    def broker_socket(self) -> Path:
        """The path of the socket in the data folder, or, if that is too long, in a private folder of the user."""
        return setting_values.socket_of(self.data_dir.absolute())

    @property
    def effective_broker_url(self) -> str:
        return self.broker_url or f"unix://{quote(str(self.broker_socket))}"

    @property
    def is_loopback(self) -> bool:
        return self.host in {"127.0.0.1", "localhost", "::1"}

    @property
    def is_auth_required(self) -> bool:
        return not self.is_loopback if self.require_auth is None else self.require_auth

    def endpoint_key(self, name: str) -> str:
        """Return the key of an endpoint; empty if it needs none, or if the variable of the key is not set."""
        return self._endpoint_keys.get(name, "")

    def check_secret(self, name: str) -> str:
        """Return the secrets that sign the requests to an HTTP check; empty if no secret is set."""
        if name in self._check_secrets:
            return self._check_secrets[name]
        return self.webhook_secret.get_secret_value() if self.webhook_secret else ""

    @property
    def all_model_limits(self) -> dict[str, ModelLimit]:
        """The rate limits of models and of endpoints. REDRAFT_MODEL_LIMITS has precedence."""
        of_endpoints = {f"{name}:{ANY_MODEL}": each.limits for name, each in self.endpoints.items() if each.limits}
        return {**of_endpoints, **self.model_limits}

    @property
    def trace_headers(self) -> dict[str, str]:
        headers = self.otel_exporter_otlp_headers
        return setting_values.headers_of(headers.get_secret_value()) if headers else {}

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that logs and rows must never contain: keys, webhook secrets, passwords in URLs."""
        keys = (self.openai_api_key, self.anthropic_api_key)
        endpoints = self.endpoints.values()
        urls = (
            *(self.database_url, self.broker_url, self.openai_base_url, self.anthropic_base_url),
            self.otel_exporter_otlp_endpoint,
            *(endpoint.base_url for endpoint in endpoints),
        )
        of_endpoints = [*self._endpoint_keys.values(), *(value for each in endpoints for value in each.secret_headers)]
        passwords = [setting_values.password_of(url) for url in urls if url]
        decoded = [unquote(password) for password in passwords]
        webhooks = self.webhook_secret.get_secret_value().split() if self.webhook_secret else []
        of_vendors = [key.get_secret_value().strip() for key in keys if key]
        of_checks = [secret for each in self._check_secrets.values() for secret in each.split()]
        # The secret of `Basic …` and `Bearer …` is the last word
        of_traces = [part for value in self.trace_headers.values() for part in (value, value.rpartition(" ")[2])]
        return (*of_traces, *of_vendors, *of_endpoints, *webhooks, *of_checks, *passwords, *decoded)


class _TomlFile(TomlConfigSettingsSource):
    """Reads `redraft.toml`. An unknown name is refused as a mistake, because this file is only for settings."""

    def _read_file(self, file_path: Any) -> dict[str, Any]:
        try:
            values = super()._read_file(file_path)
        except ValueError as error:
            raise ValueError(f"{file_path} is no valid TOML: {error}") from error
        for name in values:
            if name.lower() not in _toml_names():
                meant = get_close_matches(name.lower().removeprefix("redraft_"), Settings.model_fields, n=1)
                advice = f"did you mean {meant[0]!r}?" if meant else "docs/settings.md lists the settings."
                raise ValueError(f"{file_path} has {name!r}, which is no setting: {advice}")
        return values


def _toml_names() -> set[str]:
    aliases = [field.validation_alias for field in Settings.model_fields.values()]
    spelled = [str(choice) for each in aliases if isinstance(each, AliasChoices) for choice in each.choices]
    return {*Settings.model_fields, *(name.lower() for name in spelled)}
