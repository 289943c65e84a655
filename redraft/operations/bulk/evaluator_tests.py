"""Reads the tests of evaluators. A test is a run whose rows are the built-in probes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from redraft.caching import cached_once
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


@dataclass(frozen=True, slots=True)
class _Ended:
    """The run of a finished test, as a key of the caches below. A resumed run ends again, so `finished_at` differs."""

    run_id: str
    finished_at: datetime | None
    run: RunRecord = field(compare=False)
    services: Services = field(compare=False)

    @property
    def evaluator(self) -> tuple[str, str]:
        return evaluators_of_test(self.run.defaults), self.run.defaults.get("profile", DEFAULT_PROFILE)


def list_tests(services: Services) -> list[EvaluatorTest]:
    """The latest test of each evaluator with each version of a profile, newest first."""
    found = {(each.evaluator, version): each for each in reversed(_ended(services)) if (version := _version(each))}
    tests = [
        EvaluatorTest(each.run_id, *each.evaluator, version, each.run.created_at, _probes(each))
        for (_, version), each in found.items()
    ]
    return sorted(tests, key=lambda test: test.tested_at, reverse=True)


def warnings_about(services: Services, evaluators: Iterable[tuple[str, str]]) -> list[str]:
    """Return a sentence for each evaluator that failed a probe with the current version of its profile.

    Each of `evaluators` is a pair: the full name of an evaluator (or the joined names of a panel), and a profile.
    """
    tests = _ended(services)
    return [words for each in dict.fromkeys(evaluators) if (words := _warning(services, tests, *each))]


def _warning(services: Services, tests: Sequence[_Ended], name: str, profile: str) -> str | None:
    of_evaluator = [each for each in tests if each.evaluator == (name, profile)]
    if not of_evaluator:
        return None
    current = next((each.version for each in services.profiles.all() if each.name == profile), "")
    latest = next((each for each in of_evaluator if _version(each) == current), None)
    failed = [each for each in _probes(latest) if each.result == "failed"] if latest else []
    if not failed:
        return None
    listed = "; ".join(f"{each.title.lower()} ({each.flips} of {each.pairs} pairs)" for each in failed)
    return f"{name} failed probes of evaluators, so its verdicts may be wrong: {listed}."


def _ended(services: Services) -> list[_Ended]:
    """The finished tests, newest first."""
    with services.database.read() as connection:
        runs = stored.list_tests(connection, TEST_LABEL, limit=_TESTS_MAX)
    return [_Ended(run.id, run.finished_at, run, services) for run in runs if run.status == "succeeded"]


# Every view of a job asks for the failed probes of its evaluator, and the result of a finished test does not change
@cached_once(maxsize=_TESTS_MAX)
def _version(test: _Ended) -> str | None:
    with test.services.database.read() as connection:
        return stored.version_of(connection, test.run_id)


@cached_once(maxsize=_TESTS_MAX)
def _probes(test: _Ended) -> Sequence[ProbeResult]:
    return report_probes(run_results.outcomes(test.services, test.run_id))
