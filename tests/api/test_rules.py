"""Rules that hold for every route."""

import ast
import inspect
import re
import textwrap
from collections import Counter
from pathlib import Path

from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts

from api.app import create_app
from api.authentication import is_open, scope_of
from api.http.bodies import StrictRoute
from redraft.domain.admin.scopes import Scope
from redraft.settings import Settings

STATEMENTS_MAX = 8


def routes(tmp_path: Path) -> list[APIRoute]:
    app: FastAPI = create_app(Settings(_env_file=None, data_dir=tmp_path))  # pyright: ignore[reportCallIssue]
    found = [context.original_route for context in iter_route_contexts(app.routes)]
    return [route for route in found if isinstance(route, APIRoute)]


def test_handlers_are_thin(tmp_path: Path):
    for route in routes(tmp_path):
        [function] = ast.parse(textwrap.dedent(inspect.getsource(route.endpoint))).body
        assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        statements = [node for node in ast.walk(function) if isinstance(node, ast.stmt)]
        # The function itself and its docstring are no statements of its work.
        assert len(statements) - 2 <= STATEMENTS_MAX, route.path


def test_every_route_is_open_or_asks_for_a_scope_and_says_so(tmp_path: Path):
    app = create_app(Settings(_env_file=None, data_dir=tmp_path))  # pyright: ignore[reportCallIssue]
    described = app.openapi()["paths"]
    asked: Counter[str] = Counter()
    for route in (each for each in routes(tmp_path) if each.include_in_schema):
        for method in route.methods:
            operation = described[route.path][method.lower()]
            if is_open(route.path):
                assert "security" not in operation
                continue
            scope = scope_of(method, re.sub(r"\{\w+\}", "1", route.path))
            assert operation["security"] == [{"key": [scope.value]}, {}]
            assert {"401", "403", "429"} <= operation["responses"].keys()
            assert (method == "GET") == (scope not in {Scope.WRITE, Scope.ADMIN})
            asked[scope.value] += 1
    assert min(asked[scope.value] for scope in Scope if scope != Scope.ADMIN) >= 1, "keys are made on the machine alone"


def test_every_described_route_is_strict(tmp_path: Path):
    described = [route for route in routes(tmp_path) if route.include_in_schema]
    assert len(described) >= 16
    assert all(isinstance(route, StrictRoute) for route in described)
