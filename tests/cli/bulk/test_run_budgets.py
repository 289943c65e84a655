"""A run's budget at the command line: what is said when it is used up, and how it is raised."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from redraft.operations.bulk import scheduler
from redraft.operations.services import Services
from redraft.settings import ModelPrice
from tests.cli.bulk.dataset_rows import rows_file
from tests.cli.conftest import open_services, settings_for
from tests.model_server import ModelServer
from tests.support.shells import Shell, drain
from tests.support.valkey import ValkeyServer

PRICES = {name: {"input": 1.0, "output": 10.0} for name in ("openai:writer", "openai:judge")}


@pytest.fixture
def priced(tmp_path: Path, valkey: ValkeyServer, model_server: ModelServer) -> Iterator[Services]:
    prices = {name: ModelPrice(**price) for name, price in PRICES.items()}
    services = open_services(settings_for(tmp_path / "data", valkey, model_server, prices=prices))
    yield services
    services.close()


def test_a_budget_that_is_used_up_is_told_with_what_a_call_costs_and_is_raised(priced: Services) -> None:
    shell = Shell({**Shell.of(priced).environment, "REDRAFT_PRICES": json.dumps(PRICES)})
    run_id = shell.run("eval", rows_file(2), "--crit", "Right.", "--max-cost", "0.0001", "--detach").out.strip()
    drain(priced)
    scheduler.schedule_all(priced)
    told = shell.run("runs", "report", run_id)
    words = (
        f"The budget of run {run_id} is used up: $0 of $0.0001 are spent or may have been, and a single call can cost"
    )
    assert words in " ".join(told.err.split())
    assert f"redraft eval --resume {run_id} --max-cost USD" in told.err
    refused = shell.run("eval", "--resume", run_id, "--detach")
    assert (refused.code, "redraft eval --resume RUN --max-cost USD" in refused.err) == (1, True)
    assert "--max-cost (/max_cost_usd): A budget can only be raised" in " ".join(
        shell.run("eval", "--resume", run_id, "--max-cost", "0.0001", "--detach").err.split()
    )
    assert shell.run("eval", "--resume", run_id, "--max-cost", "2", "--detach").code == 0
    raised = shell.run("runs", "show", run_id, "--json").data
    assert (raised["status"], raised["max_cost_usd"], raised["counts"]["running"]) == ("running", "2", 2)
    assert shell.run("runs", "resume", run_id, "--max-cost", "3", "--detach").code == 0
    assert shell.run("runs", "show", run_id, "--json").data["max_cost_usd"] == "3"
