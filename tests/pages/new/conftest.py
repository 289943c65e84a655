"""The jobs that the form has sent."""

import re

from redraft.operations.jobs import queries
from redraft.operations.jobs.resources import Job
from redraft.operations.services import Services
from redraft.storage.jobs.job_filters import JobFilter

JOB = re.compile(r"/jobs/job_[0-9a-f]{32}")


def jobs(services: Services) -> list[Job]:
    return queries.list_jobs(services, JobFilter())[0]
