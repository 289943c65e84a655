"""Schemathesis asks the running API whatever its description allows, and much that it does not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from redraft.domain.admin.scopes import Scope
from redraft.operations.admin import keys
from redraft.operations.services import Services
from tests.api.description.clients import run_tool
from tests.support.api_server import ApiServer

# Not positive_data_acceptance: a description cannot say which models, profiles and cursors there are, how long a span
# of time may be, nor that a text holds no NUL.
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,unsupported_method,ignored_auth,negative_data_rejection"
)
OPTIONS = ("--checks", CHECKS, "--phases", "examples,coverage,fuzzing", "--max-examples", "10", "--workers", "2")
# Without a worker it is right to answer 503.
LEFT_OUT = ("--exclude-path", "/readyz")


@pytest.mark.long
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("with_keys", [False, True])
def test_no_request_gets_an_answer_that_is_not_described(
    start_api: Callable[..., ApiServer], services: Services, tmp_path: Path, *, with_keys: bool
):
    api = start_api(require_auth=with_keys, requests_per_minute=0)
    asked = ["run", f"{api.url}/openapi.json", *OPTIONS, *LEFT_OUT, "--max-time", "120"]
    if with_keys:
        _, token = keys.create_key(services, "tools", list(Scope))
        asked += ["--header", f"Authorization: Bearer {token}"]
    run_tool("schemathesis", *asked, cwd=tmp_path)
