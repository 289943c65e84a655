"""Conventions that no linter knows, held by small searches through the sources."""

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from pydantic import AliasChoices

from redraft.domain.jobs.job_errors import TITLES
from redraft.domain.jobs.webhooks import EVENT_TYPES
from redraft.errors import RETRYABLE_CODES, ProviderErrorCode
from redraft.settings import Settings
from tests.rules.sources import PACKAGES, ROOT, dotted, imported, modules, nodes

PROJECTS = ("pyproject.toml", "client/pyproject.toml")
COMMITTERS = {"redraft/storage/engine/unit_of_work.py", "redraft/storage/engine/schema.py"}
ENVIRONMENT_READERS = {
    "redraft/settings.py": "the one place",
    "redraft/operations/admin/setting_errors.py": "asks which of two names a setting has, to name it in a message",
    "redraft/embedded/stacks.py": "hands its own environment on to the processes it starts",
    "redraft/cli/admin/serving.py": "hands its options on to the settings of this process, reads nothing",
    "redraft/providers/local/process.py": "hands its own environment on to the server of the local model",
}
HANDLER_STATEMENTS_MAX = 8
ROUTE_VERBS = {"get", "post", "put", "patch", "delete", "api_route"}


def calls_of(path_and_node: tuple[str, ast.AST]) -> str:
    _, node = path_and_node
    return dotted(node.func) if isinstance(node, ast.Call) else ""


def test_only_the_unit_of_work_commits():
    found = {
        path
        for path, node in nodes(*PACKAGES)
        if isinstance(node, ast.Call) and dotted(node.func).endswith((".commit", "engine.begin", "connection.begin"))
    }
    assert found <= COMMITTERS
    assert "redraft/storage/engine/unit_of_work.py" in found


def test_only_the_settings_read_the_environment():
    names = {"os.environ", "os.getenv", "environ", "getenv", "os.environb"}
    found = {
        path
        for path, node in nodes(*PACKAGES)
        if (isinstance(node, ast.Attribute) and dotted(node) in names)
        or {"os.environ", "os.getenv"} & set(imported(node))
    }
    assert found <= set(ENVIRONMENT_READERS), found


def test_nothing_is_pickled():
    picklers = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"}
    users = {
        path
        for path, node in nodes(*PACKAGES)
        if picklers & {name.split(".")[0] for name in imported(node)}
        or (isinstance(node, ast.Constant) and node.value in tuple(picklers))
    }
    assert users == set()


def test_no_message_waits_in_the_broker():
    found = [
        (path, keyword.arg)
        for path, node in nodes(*PACKAGES)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg in {"eta", "countdown", "default_retry_delay"}
    ]
    assert found == []


def test_no_task_retries_itself():
    found = [path for path, node in nodes("worker") if dotted(getattr(node, "func", node)).endswith("self.retry")]
    assert found == []


def statements(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """All statements of a handler, nested ones included, its docstring not."""
    count = sum(isinstance(node, ast.stmt) for node in ast.walk(function)) - 1
    return count - (ast.get_docstring(function) is not None)


def handlers() -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    def is_route(decorator: ast.expr) -> bool:
        return isinstance(decorator, ast.Call) and dotted(decorator.func).rsplit(".", 1)[-1] in ROUTE_VERBS

    return [
        (f"{path}:{node.name}", node)
        for path, node in nodes("api/routes")
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(map(is_route, node.decorator_list))
    ]


def test_handlers_are_thin():
    assert len(handlers()) >= 15
    thick = {name: statements(node) for name, node in handlers() if statements(node) > HANDLER_STATEMENTS_MAX}
    assert thick == {}


def environment_names() -> list[str]:
    names: list[str] = []
    for name, field in Settings.model_fields.items():
        alias = field.validation_alias
        names += [str(c) for c in alias.choices] if isinstance(alias, AliasChoices) else [f"REDRAFT_{name.upper()}"]
    return names


@pytest.mark.parametrize("page", ["docs/settings.md", ".env.example"])
def test_every_setting_is_documented(page: str):
    text = (ROOT / page).read_text("utf-8")
    assert [name for name in environment_names() if name not in text] == []


def test_every_setting_says_what_it_is_for():
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_every_code_of_a_provider_error_has_a_title():
    assert set(get_args(ProviderErrorCode)) <= set(TITLES)
    assert set(TITLES) >= RETRYABLE_CODES


def test_every_code_that_the_operations_use_has_a_title():
    used = {
        node.args[0].value
        for _, node in nodes(*PACKAGES)
        if isinstance(node, ast.Call)
        and dotted(node.func) in {"job_error", "ProviderError", "UnusableReply", "_failure"}
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }
    assert used <= set(TITLES), used - set(TITLES)


def test_webhooks_know_every_event_of_a_job():
    told = {
        node.args[0].value
        for _, node in nodes("redraft/operations")
        if isinstance(node, ast.Call)
        and dotted(node.func) in {"event", "endings.event"}
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }
    assert told == set(EVENT_TYPES)


def test_each_measure_of_the_threat_page_has_a_test():
    page = (ROOT / "docs/security.md").read_text("utf-8")
    rows = page.partition("## Threats")[2].partition("\n## ")[0].strip().splitlines()[4:]
    assert len(rows) > 20
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)`", row)
        assert named, row
        assert [name for name in named if not (ROOT / name).exists()] == [], row


def test_no_test_patches_our_modules():
    found = []
    for path, tree in modules("tests").items():
        brought_in = {name for node in ast.walk(tree) for name in imported(node)}
        ours = {name.rsplit(".", 1)[-1] for name in brought_in if name.split(".")[0] in PACKAGES} | set(PACKAGES)
        if any(name.startswith(("unittest.mock", "mock", "pytest_mock")) for name in brought_in):
            found.append((path, "a mock library"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and dotted(node.func) in {"monkeypatch.setattr", "monkeypatch.delattr"}:
                target = node.args[0]
                root = str(target.value) if isinstance(target, ast.Constant) else dotted(target)
                if root.split(".")[0] in ours:
                    found.append((path, root))
    assert found == []


def test_no_test_sleeps():
    allowed = {
        "tests/support/waiting.py": "the one place that waits",
        "tests/model_server/server.py": "scripted latency",
        "tests/api/http/test_limits.py": "a client that sends slowly",
        "tests/support/api_server.py": "gives the event loop some turns",
        "tests/api/test_stopping.py": "gives the event loop one turn",
    }
    found = {
        path for path, node in nodes("tests") if calls_of((path, node)) in {"time.sleep", "sleep", "asyncio.sleep"}
    }
    assert found <= set(allowed), found


def test_bounds_of_time_are_scaled_by_one_patience():
    """`tests.support.waiting.patient`: a literal is too short on the machine that nobody has seen."""
    found = [f"{path}:{node.lineno}" for path, node in nodes("tests") if any(map(_is_a_bound, _literals_in(node)))]
    assert found == []


def test_no_browser_test_reads_what_may_not_be_there_yet():
    """`expect(…)` waits. These read at once, or the text of the page before, and fail on a slow machine only."""
    at_once = {
        *("all", "count", "all_inner_texts", "all_text_contents", "inner_text", "text_content", "input_value"),
        *("is_visible", "is_hidden", "is_checked", "is_enabled", "is_disabled", "title"),
    }
    found = [
        f"{path}:{node.lineno}"
        for path, node in nodes("tests/pages")
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ((node.func.attr in at_once and not node.args) or node.func.attr == "get_attribute")
    ]
    assert found == []


def test_no_client_has_the_five_seconds_of_its_library():
    calls = {f"httpx2.{name}" for name in ("Client", "get", "post", "put", "delete", "head", "request", "stream")}
    found = [
        f"{path}:{node.lineno}"
        for path, node in nodes("tests")
        if isinstance(node, ast.Call)
        and calls_of((path, node)) in calls
        and not any(each.arg in {"timeout", None} for each in node.keywords)
    ]
    assert found == []


def _literals_in(node: ast.AST) -> list[ast.expr]:
    """What may be a literal bound: of a call that waits, or of a clock's difference."""
    if isinstance(node, ast.Compare):
        is_clock = any(calls_of(("", each)).startswith("time.") for each in ast.walk(node.left))
        return [other for op, other in zip(node.ops, node.comparators, strict=True) if is_clock and _is_upper(op)]
    if not isinstance(node, ast.Call):
        return []
    waits = isinstance(node.func, ast.Attribute) and node.func.attr in {"wait", "join", "result", "communicate"}
    return [each.value for each in node.keywords if each.arg == "timeout"] + (node.args[:1] if waits else [])


def _is_upper(op: ast.cmpop) -> bool:
    return isinstance(op, (ast.Lt, ast.LtE))


def _is_a_bound(value: ast.expr) -> bool:
    """Shorter ones are the pauses between two looks."""
    return isinstance(value, ast.Constant) and isinstance(value.value, (int, float)) and value.value >= 0.5


def test_files_are_short_enough_to_read():
    long = {
        path: count
        for path in modules(*PACKAGES, "tests")
        if (count := len((ROOT / path).read_text("utf-8").splitlines())) > 400
    }
    assert long == {}


def test_folders_are_small_enough_to_read():
    folders = Counter(Path(path).parent for path in modules(*PACKAGES, "tests") if not path.endswith("__init__.py"))
    assert {str(folder): count for folder, count in folders.items() if count > 15} == {}


def test_the_domain_and_the_entry_points_do_not_know_sql():
    found = [
        path
        for path, node in nodes("redraft/domain", "api", "worker", "redraft/cli")
        if any(name.split(".")[0] == "sqlalchemy" for name in imported(node))
    ]
    assert found == []


def test_the_client_knows_nothing_of_the_server():
    """It is installed without the server. The contracts of the imports know the server's packages only."""
    found = {name.split(".")[0] for _, node in nodes("client") for name in imported(node)}
    assert "httpx2" in found
    assert found & {*PACKAGES, "tests"} == set()


def test_the_client_has_the_version_of_the_service():
    service, client = (tomllib.loads((ROOT / each).read_text("utf-8"))["project"] for each in PROJECTS)
    assert client["version"] == service["version"]
    assert service["optional-dependencies"]["remote"] == [f"{client['name']}=={client['version']}"]


def test_every_code_path_that_the_docs_name_exists():
    names = {path.name for path in ROOT.glob("[a-z]*/**/*.py")}
    documents = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    text = "\n".join(each.read_text("utf-8") for each in documents)
    paths = re.findall(r"`((?:redraft|api|worker|tests|docs|migrations|benchmarks|examples)/[\w./-]+)`", text)
    files = re.findall(r"`(\w+\.py)`", text)
    assert paths
    assert [each for each in paths if not (ROOT / each).exists()] == []
    assert [each for each in files if each not in names] == []
