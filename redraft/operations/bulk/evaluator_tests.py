"""Reads the tests of evaluators. A test is a run whose rows are the built-in probes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from redraft.domain.jobs.requests import DEFAULT_PROFILE
from redraft.domain.probes.probe_answers import TEST_LABEL, evaluators_of_test
from redraft.domain.probes.report import ProbeResult, report_probes
from redraft.operations.bulk import run_results
from redraft.operations.services import Services
from redraft.storage.bulk import evaluator_tests as stored
from redraft.storage.bulk.runs import RunRecord

_TESTS_MAX = 100


@dataclass(frozen=True, slots=True)
class EvaluatorTest:
    """The latest test of an evaluator with one version of a profile. A panel has several names, joined by ` + `."""

    run_id: str
    evaluator: str
    profile: str
    profile_version: str
    tested_at: datetime
    probes: Sequence[ProbeResult]

    @property
    def failed(self) -> list[ProbeResult]:
        return [each for each in self.probes if each.result == "failed"]


def list_tests(services: Services) -> list[EvaluatorTest]:
    """The latest test of each evaluator with each version of a profile, newest first."""
    found = {_key(run, version): (run, version) for run, version in reversed(_tests(services))}
    tests = [_test(services, run, version) for run, version in found.values()]
    return sorted(tests, key=lambda test: test.tested_at, reverse=True)


def warnings_about(services: Services, evaluators: Iterable[tuple[str, str]]) -> list[str]:
    """A sentence for each evaluator that failed a probe with the current version of its profile.

    `evaluators` are pairs of the full name of an evaluator, or the joined names of a panel, and a profile.
    """
    tests = _tests(services)
    return [words for each in dict.fromkeys(evaluators) if tests and (words := _warning(services, tests, *each))]


def _warning(services: Services, tests: Sequence[tuple[RunRecord, str]], name: str, profile: str) -> str | None:
    known = next((each for each in services.profiles.all() if each.name == profile), None)
    key = (name, profile, known.version if known else "")
    found = next((pair for pair in tests if _key(*pair) == key), None)
    failed = _test(services, *found).failed if found else []
    if not failed:
        return None
    listed = "; ".join(f"{each.title.lower()} ({each.flips} of {each.pairs} pairs)" for each in failed)
    return f"{name} failed probes of evaluators, so its verdicts may be wrong: {listed}."


def _tests(services: Services) -> list[tuple[RunRecord, str]]:
    """The finished tests with their profile versions, newest first."""
    with services.database.read() as connection:
        runs = [run for run in stored.list_tests(connection, TEST_LABEL, limit=_TESTS_MAX) if run.status == "succeeded"]
        versions = stored.versions_of(connection, [run.id for run in runs])
    return [(run, versions[run.id]) for run in runs if run.id in versions]


def _key(run: RunRecord, version: str) -> tuple[str, str, str]:
    return evaluators_of_test(run.defaults), run.defaults.get("profile", DEFAULT_PROFILE), version


def _test(services: Services, run: RunRecord, version: str) -> EvaluatorTest:
    probes = report_probes(run_results.outcomes(services, run.id))
    return EvaluatorTest(run.id, *_key(run, version), run.created_at, probes)
