"""Reads the files of `deploy/`, and validates those of Kubernetes, offline."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from tests.rules.sources import ROOT

DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
_SCHEMAS = Path(__file__).parent / "schemas"


def read(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(path.read_text("utf-8")) if each]


def objects(folder: str = "") -> list[dict[str, Any]]:
    """All manifests, or those of one folder, without the files for kustomize."""
    paths = sorted(KUBERNETES.glob(f"{folder or '*'}/*.yaml"))
    return [each for path in paths if path.name != "kustomization.yaml" for each in read(path)]


def named(kind: str, name: str) -> dict[str, Any]:
    (found,) = [each for each in objects() if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """The name of each Deployment and Job, and the template of its pods."""
    for each in objects():
        if each["kind"] in ("Deployment", "Job"):
            yield each["metadata"]["name"], each["spec"]["template"]


def containers() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, pod in pods():
        for each in pod["spec"]["containers"]:
            yield name, each


def settings() -> dict[str, str]:
    return named("ConfigMap", "redraft-settings")["data"]


@cache
def _schema_of(kind: str) -> Mapping[str, Any]:
    kubernetes = json.loads((_SCHEMAS / "kubernetes-1.37.json").read_text("utf-8"))
    if kind in kubernetes["kinds"]:
        name = kubernetes["kinds"][kind]
        return {"$ref": f"#/definitions/{name}", "definitions": kubernetes["definitions"]}
    return _closed(json.loads((_SCHEMAS / "keda.json").read_text("utf-8"))[kind])


def _closed(schema: Any) -> Any:
    """A schema of a CRD that refuses unknown fields, as `kubectl apply` does."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: _closed(each) for name, each in schema.items()}
    is_open = "additionalProperties" in inner or "x-kubernetes-preserve-unknown-fields" in inner
    return inner if "properties" not in inner or is_open else {**inner, "additionalProperties": False}


def errors(manifest: Mapping[str, Any]) -> list[str]:
    """What a server of Kubernetes would not accept."""
    schema = _schema_of(f"{manifest['apiVersion']} {manifest['kind']}")
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(manifest)]
