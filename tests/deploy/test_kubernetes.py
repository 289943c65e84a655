"""`deploy/kubernetes`: valid for Kubernetes, and true to what the program has."""

import copy
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.app import create_app
from redraft import __version__
from redraft.operations.admin import metrics
from redraft.operations.services import Services
from redraft.settings import Settings
from tests.deploy.manifests import KUBERNETES, containers, errors, named, objects, pods, read, settings
from tests.rules.sources import ROOT
from tests.support.shells import command_line

DOCS = (ROOT / "docs" / "deployment.md").read_text("utf-8")
FOLDERS = ("base", "autoscaled")


def own_settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, value in settings().items():
        monkeypatch.setenv(name, value)
    return Settings(_env_file=None)  # pyright: ignore[reportCallIssue]


def test_each_manifest_fits_its_schema():
    assert {each["metadata"]["name"]: errors(each) for each in objects() if errors(each)} == {}


@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [
        ("Deployment", "redraft-api", ["spec", "template", "spec", "containers", 0, "livenesProbe"]),
        ("Job", "redraft-migrate", ["spec", "backOffLimit"]),
        ("NetworkPolicy", "redraft", ["spec", "egress", 0, "port"]),
        ("ScaledObject", "redraft-worker", ["spec", "minReplicas"]),
        ("ScaledObject", "redraft-worker", ["spec", "triggers", 0, "metadata", "timeout"]),
    ],
)
def test_a_misspelled_field_fits_no_schema(kind: str, name: str, path: list[Any]):
    wrong = copy.deepcopy(named(kind, name))
    place: Any = wrong
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = 1
    assert errors(wrong) != []


@pytest.mark.parametrize("folder", FOLDERS)
def test_kustomize_lists_every_file(folder: str):
    (kustomization,) = read(KUBERNETES / folder / "kustomization.yaml")
    listed = {each for each in kustomization["resources"] if not each.startswith("..")}
    assert listed == {path.name for path in (KUBERNETES / folder).glob("*.yaml")} - {"kustomization.yaml"}
    for base in set(kustomization["resources"]) - listed:
        assert (KUBERNETES / folder / base / "kustomization.yaml").is_file()


@pytest.mark.skipif(not shutil.which("kubectl"), reason="needs kubectl, which renders offline")
@pytest.mark.parametrize("folder", FOLDERS)
def test_kustomize_renders_what_still_fits(folder: str):
    done = subprocess.run(["kubectl", "kustomize", KUBERNETES / folder], capture_output=True, text=True, check=True)
    found = list(yaml.safe_load_all(done.stdout))
    assert len(found) == len(objects("base")) + (folder != "base") * len(objects("autoscaled"))
    assert [errors(each) for each in found if errors(each)] == []
    assert {each["metadata"].get("namespace", each["metadata"]["name"]) for each in found} == {"redraft"}
    (worker,) = [each for each in found if (each["kind"], each["metadata"]["name"]) == ("Deployment", "redraft-worker")]
    assert worker["spec"]["template"]["spec"]["containers"][0]["image"] == f"redraft:{__version__}"
    assert ("replicas" in worker["spec"]) == (folder == "base")


@pytest.mark.skipif(not shutil.which("kubectl"), reason="needs kubectl, which renders offline")
@pytest.mark.parametrize("folder", FOLDERS)
def test_the_overlay_of_the_docs_sets_the_image_of_every_pod(folder: str, tmp_path: Path):
    [overlay] = re.findall(r"```yaml\n(# deploy/kubernetes/own/.*?)```", DOCS, re.DOTALL)
    shutil.copytree(KUBERNETES, tmp_path, dirs_exist_ok=True)
    (tmp_path / "own").mkdir(exist_ok=True)
    (tmp_path / "own" / "kustomization.yaml").write_text(overlay.replace("../base]", f"../{folder}]"), "utf-8")
    done = subprocess.run(["kubectl", "kustomize", tmp_path / "own"], capture_output=True, text=True, check=True)
    images = re.findall(r"image: (.*)", done.stdout)
    assert images == [f"REGISTRY/redraft:{__version__}"] * len(list(pods()))


def test_the_settings_are_those_of_the_program(monkeypatch: pytest.MonkeyPatch):
    found = own_settings(monkeypatch)
    names = {name.removeprefix("REDRAFT_").lower() for name in settings()}
    assert names <= set(Settings.model_fields)
    assert found.is_auth_required
    secrets = {name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)}
    assert not names & (secrets | {"database_url", "broker_url"}), "secrets come from the secret"


def test_the_commands_are_those_of_the_program():
    for name, container in containers():
        command: Any = command_line()
        for word in container["args"]:
            command = command.commands[word]
        assert "command" not in container, f"{name} replaces the entry point of the image"
    assert 'ENTRYPOINT ["redraft"]' in (ROOT / "Dockerfile").read_text("utf-8")


def test_the_image_is_this_version_and_its_user(monkeypatch: pytest.MonkeyPatch):
    (kustomization,) = read(KUBERNETES / "base" / "kustomization.yaml")
    assert kustomization["images"] == [{"name": "redraft", "newTag": __version__}]
    assert {container["image"] for _, container in containers()} == {"redraft"}
    (user,) = re.findall(r"useradd --uid (\d+)", (ROOT / "Dockerfile").read_text("utf-8"))
    assert {pod["spec"]["securityContext"]["runAsUser"] for _, pod in pods()} == {int(user)}


def test_pods_are_restricted_and_write_only_where_a_volume_is():
    for name, pod in pods():
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"]:
            own = container["securityContext"]
            assert own == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, name
            mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
            assert mounts.keys() == {settings()["REDRAFT_DATA_DIR"], "/tmp"}
            assert set(mounts.values()) == {each["name"] for each in spec["volumes"] if each["emptyDir"] == {}}
            assert {"requests", "limits"} == container["resources"].keys()
    assert named("ServiceAccount", "redraft")["automountServiceAccountToken"] is False
    assert {pod["spec"]["serviceAccountName"] for _, pod in pods()} == {"redraft"}


def test_ports_and_probes_are_those_of_the_api(monkeypatch: pytest.MonkeyPatch, make_settings: Any):
    paths = create_app(make_settings()).openapi()["paths"]
    (api,) = [container for name, container in containers() if name == "redraft-api"]
    assert api["ports"] == [{"name": "http", "containerPort": own_settings(monkeypatch).port}]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert api[probe]["httpGet"]["path"] in paths
        assert api[probe]["httpGet"]["port"] == "http"
    assert named("Service", "redraft-api")["spec"]["ports"] == [{"name": "http", "port": 80, "targetPort": "http"}]
    (ingress,) = named("NetworkPolicy", "redraft-api")["spec"]["ingress"]
    assert ingress == {"ports": [{"protocol": "TCP", "port": "http"}]}


def test_selectors_find_the_pods_that_they_name():
    labels = {name: pod["metadata"]["labels"] for name, pod in pods()}
    seen = set()
    for each in objects():
        spec = each.get("spec", {})
        wanted = spec.get("podSelector", spec.get("selector", {}))
        wanted = wanted.get("matchLabels", wanted)
        if each["kind"] in ("Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"):
            found = {name for name, own in labels.items() if wanted.items() <= own.items()}
            name = each["metadata"]["name"]
            assert found == (set(labels) if name == "redraft" else {name}), each
            seen.add(each["kind"])
    assert len(seen) == 4


def test_pods_have_the_time_to_end(monkeypatch: pytest.MonkeyPatch):
    grace = own_settings(monkeypatch).shutdown_grace_s
    times = {name: pod["spec"]["terminationGracePeriodSeconds"] for name, pod in pods() if name != "redraft-migrate"}
    assert times["redraft-worker"] >= grace + 10
    assert times["redraft-api"] >= 5 + 5 + 10


def test_secrets_and_settings_that_pods_refer_to_are_those_of_the_page():
    for _, container in containers():
        assert container["envFrom"] == [
            {"configMapRef": {"name": "redraft-settings"}},
            {"secretRef": {"name": "redraft"}},
        ]
    assert "kubectl create secret generic redraft " in DOCS
    (reference,) = named("TriggerAuthentication", "redraft-metrics")["spec"]["secretTargetRef"]
    assert f"kubectl create secret generic {reference['name']} " in DOCS
    assert f"--from-literal={reference['key']}=" in DOCS
    assert not [each for each in objects() if each["kind"] == "Secret"]


def test_the_scaler_reads_metrics_that_an_idle_installation_exports(
    services: Services, monkeypatch: pytest.MonkeyPatch
):
    spec = named("ScaledObject", "redraft-worker")["spec"]
    assert named("Deployment", spec["scaleTargetRef"]["name"])
    exported = metrics.collect(services).exposition().splitlines()
    for trigger in spec["triggers"]:
        place = trigger["metadata"]["valueLocation"]
        assert [line for line in exported if line.startswith(f"{place} ")], place
        assert trigger["metadata"]["url"] == "http://redraft-api.redraft.svc/metrics"
        assert trigger["authenticationRef"]["name"] == "redraft-metrics"
    assert len({trigger["metadata"]["valueLocation"] for trigger in spec["triggers"]}) == 4
    scaling = spec["advanced"]["scalingModifiers"]
    assert scaling["formula"].split(" + ") == [trigger["name"] for trigger in spec["triggers"]]
    assert float(scaling["target"]) == own_settings(monkeypatch).worker_concurrency * 0.75
    assert spec["minReplicaCount"] >= 1, "without a worker, deadlines and webhooks would wait"
