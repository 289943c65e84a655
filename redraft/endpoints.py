"""The settings of endpoints: servers with a wire format, an address, a key, prices and limits of their own."""

import re
from collections.abc import Collection, Mapping
from importlib.metadata import entry_points
from typing import Annotated, Literal, LiteralString

from pydantic import AfterValidator, BaseModel, Field, SecretStr
from pydantic_core import PydanticCustomError

from redraft import setting_values

CHECK_NAME = r"[A-Za-z][A-Za-z0-9_.-]{0,39}"
"""The pattern for the name of a check that a server or an installed package runs."""
BUILT_IN = ("openai", "anthropic", "local")
"""The names before the colon of a model that need no entry in the settings."""
# The ledger stores the name of an endpoint in a column of 20 characters
NAME = re.compile(r"[a-z][a-z0-9_-]{0,19}")
"""The pattern of the name before the colon of a model."""
ANY_MODEL = "*"
"""Stands for all models of an endpoint that have no entry of their own."""

# Small letters are not allowed: keys of several vendors would match, and messages would show such a key as a name
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,99}")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]{1,2000}")
# The SDKs and the HTTP client compute these headers from the request
_COMPUTED_HEADERS = frozenset({"connection", "content-length", "content-type", "host", "transfer-encoding"})
_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie|passw|credential|signature", re.IGNORECASE)
_RANDOM_CHARS_MIN = 20


# At this maximum, which is a dollar per token, the cost of the largest call still fits the databases' integers
_Usd = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]


class ModelPrice(BaseModel, frozen=True, extra="forbid"):
    """Prices in USD per million tokens.

    The default of `cached_input` is `input`, and that of `cache_write_input` is 1.25 times `input`. A call in a batch
    costs `batch_factor` times as much.
    """

    input: _Usd
    output: _Usd
    cached_input: _Usd | None = None
    cache_write_input: _Usd | None = None
    batch_factor: float = Field(default=0.5, ge=0, le=1)

    @property
    def is_free(self) -> bool:
        return not (self.input or self.output or self.cached_input or self.cache_write_input)


class ModelLimit(BaseModel, frozen=True, extra="forbid"):
    requests_per_minute: int | None = Field(default=None, ge=1)
    calls_at_once: int | None = Field(default=None, ge=1)


def _refuse(code: LiteralString, words: str) -> PydanticCustomError:
    return PydanticCustomError(code, "{words}.", {"words": words})


def _checked_url(url: str) -> str:
    if error := setting_values.http_error(url):
        raise _refuse("bad_address", error)
    return url


def _checked_variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        words = "must be the name of an environment variable in capital letters, such as GROQ_API_KEY"
        raise _refuse("bad_variable", f"{words}; the key itself is the value of that variable")
    return name


def _checked_headers(headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _COMPUTED_HEADERS:
            raise _refuse("bad_header", f"{name!r} is no header that can be set")
        if not _HEADER_VALUE.fullmatch(value.get_secret_value()):
            raise _refuse("bad_header", f"the value of {name} is empty or has characters that no HTTP header can carry")
    return headers


def _checked_name(name: str) -> str:
    if name in BUILT_IN:
        raise _refuse("bad_name", f"{name!r} is built in, so choose another name")
    if not NAME.fullmatch(name):
        raise _refuse("bad_name", "a name is a small letter and at most 19 small letters, digits, '_' or '-'")
    return name


def _checked_check_name(name: str) -> str:
    if not re.fullmatch(CHECK_NAME, name):
        words = f"{name!r} is no name of a check: a letter and at most 39 letters, digits, '_', '.' and '-'"
        raise _refuse("bad_name", words)
    return name


EndpointName = Annotated[str, AfterValidator(_checked_name)]
CheckName = Annotated[str, AfterValidator(_checked_check_name)]


class BatchSize(BaseModel, frozen=True, extra="forbid"):
    """The maximum size of a batch. By default, the limits of the wire format's vendor apply."""

    requests: int | None = Field(default=None, ge=1)
    bytes: int | None = Field(default=None, ge=1000)


class Endpoint(BaseModel, frozen=True, extra="forbid"):
    """A server that is called with the models `NAME:model`.

    Attributes:
        api_key_env: the name of the environment variable that holds the key; None if the server needs no key.
        headers: further headers of each request. Values that look like secrets are removed from logs and rows.
        limits: one rate limit for all models of the endpoint.
        prices: the prices of models by their name without the endpoint; `*` stands for all others.
        max_output_tokens: the output limit of calls that have no limit of their own.
        batches: whether the server has the batch API of its wire format, or the limits of this API.
    """

    format: Literal["openai", "anthropic"]
    base_url: Annotated[str, AfterValidator(_checked_url)]
    api_key_env: Annotated[str, AfterValidator(_checked_variable)] | None = None
    headers: Annotated[dict[str, SecretStr], AfterValidator(_checked_headers)] = {}
    limits: ModelLimit | None = None
    prices: dict[str, ModelPrice] = {}
    max_output_tokens: int | None = Field(default=None, ge=1)
    batches: bool | BatchSize = False

    def price_of(self, model: str) -> ModelPrice | None:
        return self.prices.get(model, self.prices.get(ANY_MODEL))

    @property
    def plain_headers(self) -> dict[str, str]:
        return {name: value.get_secret_value() for name, value in self.headers.items()}

    @property
    def secret_headers(self) -> list[str]:
        """The header values that logs and rows must never contain, with and without a scheme such as Bearer."""
        secret = [v for name, v in self.plain_headers.items() if _SECRET_HEADER.search(name) or _looks_random(v)]
        return [part for value in secret for part in (value, value.rpartition(" ")[2])]


def _looks_random(value: str) -> bool:
    if len(value) < _RANDOM_CHARS_MIN or " " in value or value.startswith(("http://", "https://")):
        return False
    return any(each.isdigit() for each in value) and any(each.isalpha() for each in value)


class CheckEndpoint(BaseModel, frozen=True, extra="forbid"):
    """A server that evaluates answers, for checks of the kind `http`.

    Attributes:
        secret_env: the name of the environment variable with the secret that signs the requests. If it is None,
            REDRAFT_WEBHOOK_SECRET signs them.
        timeout_s: the time limit of one request.
    """

    url: Annotated[str, AfterValidator(_checked_url)]
    secret_env: Annotated[str, AfterValidator(_checked_variable)] | None = None
    timeout_s: float = Field(default=10.0, gt=0, le=60)


def check_references(endpoints: Mapping[str, Endpoint], limited: Collection[str], priced: Collection[str]) -> None:
    """Check the names of models in REDRAFT_MODEL_LIMITS (`limited`), REDRAFT_PRICES (`priced`) and the endpoints.

    Raises:
        PydanticCustomError: if a price of an endpoint repeats the endpoint's name, or if a limit or a price names an
            unknown endpoint.
    """
    for name, endpoint in endpoints.items():
        for model in endpoint.prices:
            if model.startswith(f"{name}:"):
                words = f"endpoints.{name}.prices names {model!r}: write the model without the endpoint,"
                words = f"{words} {model.removeprefix(f'{name}:')!r}; if the server's own name begins like this,"
                raise _refuse("bad_name", f"{words} rename the endpoint")
    known = {*BUILT_IN, *endpoints, *(entry_points(group="redraft.providers").names if limited or priced else ())}
    for model in limited:
        provider, colon, _ = model.partition(":")
        is_pattern = model.endswith(ANY_MODEL) and any(name.startswith(model[:-1]) for name in known)
        if not (provider in known if colon else is_pattern):
            words = f"REDRAFT_MODEL_LIMITS names {model!r}, which is no model of {', '.join(sorted(known))}"
            raise _refuse("bad_name", f"{words}; write NAME:model or NAME:*")
    for model in priced:
        if model.partition(":")[0] not in known or ":" not in model:
            words = f"REDRAFT_PRICES names {model!r}, which is no model of {', '.join(sorted(known))}"
            raise _refuse("bad_name", f"{words}; write NAME:model")


def secrets_of(checks: Mapping[str, CheckEndpoint], environment: Mapping[str, str | None]) -> dict[str, str]:
    """Return the secrets of the checks by their names. A variable that is not set gives an empty secret.

    Raises:
        PydanticCustomError: if a secret does not have the form of Standard Webhooks.
    """
    secrets = {
        name: (environment.get(check.secret_env) or "").strip() for name, check in checks.items() if check.secret_env
    }
    for name, secret in secrets.items():
        if error := setting_values.secrets_error(secret):
            raise _refuse("bad_key", f"{checks[name].secret_env}, the secret of check {name!r}, {error}")
    return secrets


def keys_of(endpoints: Mapping[str, Endpoint], environment: Mapping[str, str | None]) -> dict[str, str]:
    """Return the keys of the endpoints by their names. A variable that is not set gives an empty key.

    Raises:
        PydanticCustomError: if an HTTP header cannot contain a key.
    """
    keys: dict[str, str] = {}
    for name, endpoint in endpoints.items():
        variable = endpoint.api_key_env
        keys[name] = ((environment.get(variable) if variable else None) or "").strip()
        if error := setting_values.key_error(keys[name]):
            raise _refuse("bad_key", f"{variable}, the key of endpoint {name!r}, {error}")
    return keys
