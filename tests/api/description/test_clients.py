"""A client that is generated from the API's description works off a job."""

import json
import subprocess
from pathlib import Path
from typing import get_args

import pytest

from redraft.domain.jobs.attachments import MediaType
from redraft.operations.services import Services
from tests.api.conftest import REQUEST
from tests.api.description.clients import run_tool, tool
from tests.model_server.server import ModelServer
from tests.operations.driving import Driver
from tests.support.api_server import ApiServer

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

PROGRAM = """
import sys, time
from redraft_client import Client
from redraft_client.api.jobs import generate_answer, get_job, list_jobs
from redraft_client.models import GenerateAnswer, Job, JobStatus

with Client(base_url=sys.argv[1]) as client:
    job = generate_answer.sync(client=client, body=GenerateAnswer(instruct=sys.argv[2], eval_crit=sys.argv[3]))
    assert isinstance(job, Job), job
    print(job.id, flush=True)
    while job.status in (JobStatus.QUEUED, JobStatus.RUNNING):
        time.sleep(0.05)
        job = get_job.sync(job.id, client=client)
    assert [each.id for each in list_jobs.sync(client=client, limit=1).data] == [job.id]
    print(job.request.instruct, job.result.final_answer, job.result.success, job.usage.calls, sep="|")
"""


@pytest.fixture
def driver(services: Services) -> Driver:
    return Driver(services)


@pytest.fixture
def generated(api: ApiServer, tmp_path: Path) -> Path:
    """The folder of a client, generated without a warning."""
    (tmp_path / "openapi.json").write_text(json.dumps(api.app.openapi()))
    # The generator knows files only as octet streams. Without hooks, it does not format its code
    files = dict.fromkeys(get_args(MediaType), "application/octet-stream")
    (tmp_path / "config.json").write_text(json.dumps({"post_hooks": [], "content_type_overrides": files}))
    options = ("--path", "openapi.json", "--output-path", "client", "--config", "config.json", "--fail-on-warning")
    said = run_tool("openapi-python-client", "generate", *options, cwd=tmp_path)
    assert "arning" not in said, said
    return tmp_path / "client"


def test_a_generated_client_submits_polls_and_reads_the_answer(
    generated: Path, api: ApiServer, driver: Driver, model_server: ModelServer
):
    model_server.script(generate=["Scattering."], evaluate=[0.9])
    command = [tool("python"), "-c", PROGRAM, api.url, *REQUEST.values()]
    with subprocess.Popen(command, cwd=generated, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        driver.run(program.stdout.readline().strip())
        assert program.stdout.read() == f"{REQUEST['instruct']}|Scattering.|True|2\n"
    assert program.returncode == 0
