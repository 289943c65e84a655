"""`/metrics`: what Prometheus reads, and what it tells of jobs, calls and workers."""

import re
from collections.abc import Callable

import httpx2
import pytest
from sqlalchemy import insert, update

from redraft.domain.admin.scopes import Scope
from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.requests import ContinueJob
from redraft.operations.admin import keys, metrics
from redraft.operations.admin.metrics import FAMILIES, Gauges, Metrics
from redraft.operations.jobs import lifecycle
from redraft.operations.services import Services
from redraft.operations.steps.leases import LeaseHolder
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.tables import calls, jobs
from tests.api.conftest import assert_problem
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.operations.driving import Driver
from tests.rules.sources import ROOT
from tests.support.api_server import ApiServer

# The grammar of Prometheus' text format 0.0.4, for gauges
_LABEL = r'[a-z_]+="(?:[^"\\\n]|\\["\\n])*"'
_LINE = re.compile(rf"([a-z_0-9]+)(?:{{({_LABEL}(?:,{_LABEL})*)}})? (-?[0-9.e+-]+)")


def parse(text: str) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    """Values by name and labels; every line must be one of the format's."""
    found: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            assert line.split(" ", 3)[3]
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert kind == "gauge"
            assert name not in found, "a family stands in one place"
            found[name] = {}
        else:
            match = _LINE.fullmatch(line)
            assert match, line
            labels = frozenset(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', match[2] or ""))
            assert labels not in found[match[1]], f"twice: {line}"
            found[match[1]][labels] = float(match[3])
    return found


class Page:
    def __init__(self, text: str) -> None:
        self.found = parse(text)

    def value(self, name: str, **labels: str) -> float:
        """The sum of all samples with these labels."""
        wanted = set(labels.items())
        return sum(value for found, value in self.found[f"redraft_{name}"].items() if wanted <= found)


@pytest.fixture
def driver(services: Services) -> Driver:
    return Driver(services)


def page(services: Services) -> Page:
    return Page(metrics.collect(services).exposition())


def test_it_is_read_over_http_in_prometheus_format(client: httpx2.Client):
    response = client.get("/metrics")
    assert (response.status_code, response.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    found = Page(response.text)
    assert found.value("database_up") == found.value("broker_up") == 1
    assert {f"redraft_{name}" for name in FAMILIES} - found.found.keys() == {
        f"redraft_{name}"
        for name in (
            "jobs_ended_5m",
            "calls_open",
            "calls_5m",
            "call_seconds_5m",
            "tokens_5m",
            "cost_usd_5m",
            "unpriced_calls_5m",
        )
    }, "only what nothing has happened of is missing"


def test_continuations_of_all_jobs_are_counted(driver: Driver, services: Services):
    assert page(services).value("job_continuations") == 0
    for count in (1, 2):
        job = driver.run_new(iter_max=1)
        for _ in range(count):
            lifecycle.continue_job(services, job.id, ContinueJob(iter_max=1))
            driver.run(job.id)
    assert page(services).value("job_continuations") == 3


def test_it_needs_a_key_where_keys_are_needed(start_api: Callable[..., ApiServer], services: Services):
    client = start_api(require_auth=True).client()
    assert_problem(client.get("/metrics"), 401)
    common = keys.create_key(services, "common")[1]
    assert_problem(client.get("/metrics", headers={"Authorization": f"Bearer {common}"}), 403, "insufficient_scope")
    token = keys.create_key(services, "prometheus", [Scope.METRICS])[1]
    assert client.get("/metrics", headers={"Authorization": f"Bearer {token}"}).status_code == 200


def test_without_database_and_broker_it_says_so(start_api: Callable[..., ApiServer], tmp_path):
    away = f"redis+socket://{tmp_path}/no.sock"
    client = start_api(database_url=f"sqlite:///{tmp_path}/no/folder/db", broker_url=away).client()
    found = Page(client.get("/metrics").text)
    assert (found.value("database_up"), found.value("broker_up")) == (0, 0)
    assert "redraft_jobs_live" not in found.found


@pytest.mark.both_databases
def test_a_database_without_a_schema_is_up_and_empty(start_api: Callable[..., ApiServer], tmp_path):
    found = Page(start_api(database_url=f"sqlite:///{tmp_path}/new.db").client().get("/metrics").text)
    assert (found.value("database_up"), found.value("build_info", schema="")) == (1, 1)
    assert "redraft_jobs_live" not in found.found


@pytest.mark.both_databases
def test_live_jobs_are_told_by_where_their_next_step_is(driver: Driver, services: Services):
    waiting, delayed, running, lost = (driver.submit() for _ in range(4))
    driver.set_back(waiting, available_at=-40.0)
    driver.set_back(delayed, available_at=100.0)
    driver.set_back(running, lease_expires_at=100.0)
    driver.set_back(lost, lease_expires_at=-7.0, rung_at=-60.0)
    found = page(services)
    assert found.value("jobs_live", status="queued") == 4
    states = ("waiting", "delayed", "in_flight", "lost")
    assert [found.value("steps", step="generate", state=state) for state in states] == [1, 1, 1, 1]
    assert found.value("steps", step="evaluate") == 0
    assert 40 <= found.value("oldest_wait_seconds") < 60
    assert 7 <= found.value("sweeper_lag_seconds") < 27, "of the lost one: nobody rang since"


@pytest.mark.both_databases
def test_the_sweeper_lags_while_nobody_rings_for_what_is_due(driver: Driver, services: Services):
    job = driver.submit()
    driver.set_back(job, available_at=-30.0, rung_at=-20.0)
    assert page(services).value("sweeper_lag_seconds") == 0
    driver.set_unnotified(job)
    assert 30 <= page(services).value("sweeper_lag_seconds") < 50


@pytest.mark.both_databases
def test_ended_jobs_and_their_calls_are_told_for_five_minutes(
    driver: Driver, services: Services, model_server: ModelServer
):
    model_server.script(generate=["one", "two"], evaluate=[0.2, 0.9])
    job = driver.run_new()
    found = page(services)
    assert found.value("jobs_ended_5m", status="succeeded", stop_reason="accepted") == 1
    assert found.value("jobs_live") == 0
    assert found.value("calls_5m", model="openai:writer", type="generate", outcome="succeeded", cached="false") == 2
    assert found.value("calls_5m", model="openai:judge", type="evaluate", http_status="200") == 2
    usage = job.usage
    assert found.value("tokens_5m", kind="input") == usage.input_tokens
    assert found.value("tokens_5m", kind="output") == usage.output_tokens
    assert found.value("unpriced_calls_5m") == 4
    assert found.value("call_seconds_5m") > 0

    driver.set_back(job.id, finished_at=-301.0)
    set_back_calls(services)
    later = page(services)
    assert "redraft_jobs_ended_5m" not in later.found
    assert "redraft_calls_5m" not in later.found


def set_back_calls(services: Services) -> None:
    with services.database.write() as connection:
        connection.execute(update(calls).values(finished_at=DbNow(-301.0)))


@pytest.mark.both_databases
def test_known_prices_are_summed_by_model(make_services: Callable[..., Services], model_server: ModelServer):
    services = make_services(prices={"openai:writer": {"input": 1.0, "output": 2.0}})
    model_server.script(generate=["one"], evaluate=[0.9])
    job = Driver(services).run_new()
    found = page(services)
    (written,) = [call for call in Driver(services).ledger(job.id) if call["type"] == "generate"]
    assert found.value("cost_usd_5m", model="openai:writer") == pytest.approx(written["cost_nano_usd"] / 1e9)
    assert found.value("cost_usd_5m", model="openai:writer") > 0
    assert found.value("unpriced_calls_5m", model="openai:writer") == 0
    assert found.value("unpriced_calls_5m", model="openai:judge") == 1


@pytest.mark.both_databases
def test_failed_calls_are_told_with_what_the_provider_answered(
    driver: Driver, services: Services, model_server: ModelServer
):
    model_server.script(generate=[Reply(status=429), "one"], evaluate=[0.9])
    driver.run_new()
    assert page(services).value("calls_5m", outcome="failed", http_status="429", model="openai:writer") == 1


@pytest.mark.both_databases
def test_workers_and_their_slots_are_told(services: Services):
    assert page(services).value("workers") == 0
    LeaseHolder(services.settings).beat(services.database)
    found = page(services)
    assert (found.value("workers"), found.value("worker_slots")) == (1, services.settings.worker_concurrency)


def test_a_step_that_lost_its_workers_is_told(driver: Driver, services: Services):
    driver.submit()
    assert page(services).value("jobs_suspected") == 0
    with services.database.write() as connection:
        connection.execute(update(jobs).values(lost_leases=2))
    assert page(services).value("jobs_suspected") == 1


@pytest.mark.both_databases
def test_models_beyond_the_busiest_are_told_as_one(driver: Driver, services: Services, model_server: ModelServer):
    model_server.script(evaluate=[0.9])
    call = driver.ledger(driver.run_new(model="openai:m0", evaluator_model="openai:m0").id)[0]
    names = [f"openai:m{number}" for number in range(33)]
    others = [*names[1:], *names[:20]]
    copies = [{**call, "id": new_id("call"), "seq": seq, "model": name} for seq, name in enumerate(others, 1)]
    with services.database.write() as connection:
        connection.execute(insert(calls), copies)
    found = page(services).found["redraft_calls_5m"]
    models = {dict(labels)["model"] for labels in found}
    assert len(models) == 31
    assert "other" in models
    assert sum(found.values()) == 2 + len(others)


def test_it_is_collected_once_for_many_who_ask(driver: Driver, services: Services):
    collected = Metrics(services)
    before = collected.read()
    driver.submit()
    assert collected.read() == before
    assert page(services).value("jobs_live") == 1


def test_labels_are_escaped():
    gauges = Gauges()
    gauges.add("calls_open", 1, model='a"b\\c\nd')
    text = gauges.exposition()
    assert text.splitlines()[-1] == r'redraft_calls_open{model="a\"b\\c\nd"} 1'
    assert parse(text)


def test_each_metric_is_explained_in_the_operations_page():
    words = (ROOT / "docs" / "operations.md").read_text("utf-8")
    assert [name for name in FAMILIES if f"`redraft_{name}`" not in words] == []
