"""Reads and writes the filters of the job list, which are in the URL of the list."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from urllib.parse import parse_qsl, urlencode

from fastapi import Request
from pydantic import ValidationError

from api.pages.parts.job_words import ending
from api.pages.parts.rendering import address
from api.routes.jobs.jobs import JobQuery
from redraft.domain.bodies.validation_errors import message_of
from redraft.domain.jobs.searches import read_search
from redraft.errors import FieldError, Invalid
from redraft.operations.jobs import job_lists
from redraft.operations.services import Services
from redraft.storage.jobs.job_filters import JobFilter, Sort

LIMIT = 50
METADATA = "metadata."
Pairs = Sequence[tuple[str, str]]
FILTERS = {
    "outcome": "Outcome",
    "stop_reason": "Stop reason",
    "kind": "Kind",
    "model": "First generator",
    "run_id": "Run",
    "created_after": "Created from (UTC)",
    "created_before": "Created before (UTC)",
    "metadata": "Metadata",
    "order": "Order",
    "status": "Status",
    "after": "Place in the list",
    "q": "Search",
    "not_met": "Criterion not met",
    "within": "Created in the",
    "sort": "Order",
}

_SINGLE = frozenset(JobQuery.model_fields) - {"status", "outcome", "after", "any_metadata"}
_SEVERAL = ("status", "outcome")
_MOMENTS = ("created_after", "created_before")
_ORDERING = ("order", "limit", "sort")
WITHIN = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}
SORTS: Mapping[Sort, str] = {
    "time": "newest first",
    "best": "highest score",
    "worst": "lowest score",
    "cost": "highest cost",
    "duration": "longest",
}
_SEARCHES = frozenset({"q", "not_met", "within", "sort"})
_FIELDS_MAX = 100
_JOB = re.compile(r"job_[0-9a-f]{32}")
_SEARCH_CHARS = 500
_COUNTED = 1000
_QUICK = ("accepted", "not_accepted", "failed", "running")
# Query parameters that are not filters
_PLACES = ("after", "shown", "notice")
_MISTAKEN = "A filter is not valid."


def tidy_address(request: Request) -> str | None:
    """Return the URL without empty fields, and with each metadata filter as a separate parameter.

    Return None if the URL already has this form.
    """
    pairs = request.query_params.multi_items()
    tidy = [each for pair in pairs for each in _tidy(*pair)]
    return None if tidy == pairs else f"{request.url.path}?{urlencode(tidy)}".removesuffix("?")


def _tidy(name: str, value: str) -> Pairs:
    if not value.strip():
        return []
    key, equals, wanted = value.partition("=")
    return [(METADATA + key.strip(), wanted.strip())] if name == "metadata" and equals else [(name, value)]


def filters_of(pairs: Pairs) -> Pairs:
    return [pair for pair in pairs if pair[0] not in _PLACES]


def pairs_of(query: str) -> Pairs:
    """Parse the filters in a form field. Raises Invalid if there are too many."""
    try:
        return parse_qsl(query, max_num_fields=_FIELDS_MAX)
    except ValueError:
        words = f"There are more than {_FIELDS_MAX} filters."
        raise Invalid.at("/filters", words, "invalid_filter") from None


def is_narrowed(pairs: Pairs) -> bool:
    return any(name not in _ORDERING for name, _ in filters_of(pairs))


def read_filter(pairs: Pairs) -> JobFilter:
    """Convert the filters in a URL to a JobFilter. Raises Invalid if a filter is not valid."""
    errors = tuple(_unknown(name, value) for name, value in filters_of(pairs) if not _is_filter(name))
    values: dict[str, Any] = {name: value for name, value in pairs if name in _SINGLE}
    values |= {several: [value for name, value in pairs if name == several] for several in _SEVERAL}
    # A date field of a form sends a date without a time
    for name in _MOMENTS:
        if len(values.get(name, "")) == len("2026-11-01"):
            values[name] += "T00:00:00Z"
    try:
        query = JobQuery.model_validate({"limit": LIMIT, **values})
    except ValidationError as error:
        errors += tuple(_field_error(each) for each in error.errors(include_url=False))
        raise Invalid(_MISTAKEN, errors) from None
    errors += tuple(_unknown_choice(pairs))
    if errors:
        raise Invalid(_MISTAKEN, errors)
    labels = {name.removeprefix(METADATA): value for name, value in pairs if _is_label(name)}
    return _searched(query.as_filter(labels), dict(pairs))


def _unknown_choice(pairs: Pairs) -> Iterator[FieldError]:
    for name, known in (("within", WITHIN), ("sort", SORTS)):
        if any(each == name and value not in known for each, value in pairs):
            yield FieldError(f"/{name}", f"choose one of {', '.join(known)}", "invalid_filter")


def _searched(criteria: JobFilter, given: Mapping[str, str]) -> JobFilter:
    """Add the text of the search, the criterion, the time span and the order, which only the pages have."""
    search = read_search(given.get("q", "")[:_SEARCH_CHARS])
    since = criteria.created_after
    if span := WITHIN.get(given.get("within", "")):
        since = max(datetime.now(UTC) - span, since or datetime.min.replace(tzinfo=UTC))
    return replace(
        criteria,
        created_after=since,
        metadata={**(criteria.metadata or {}), **search.metadata} or None,
        id_prefix=search.id_prefix,
        words=search.words,
        not_met=given.get("not_met") or None,
        sort=cast("Sort", given.get("sort", "time")),
    )


def quick_chips(request: Request, services: Services) -> list[tuple[str, str, bool]]:
    """Links to common filters with the numbers of their jobs: words, URL, and whether the filter is active."""
    counts = job_lists.count_each(services, [JobFilter(outcomes=(each,)) for each in _QUICK], most=_COUNTED)
    chips = [
        (f"{outcome_words(name)} {number:,}{'+' if number == _COUNTED else ''}", {"outcome": name})
        for name, number in zip(_QUICK, counts, strict=True)
    ]
    chips += [(f"last {name}", {"within": name}) for name in WITHIN]
    return [_quick_chip(request, words, change) for words, change in chips]


def _quick_chip(request: Request, words: str, change: Mapping[str, str]) -> tuple[str, str, bool]:
    is_active = all(value in request.query_params.getlist(name) for name, value in change.items())
    return words, link(request, **(dict.fromkeys(change) if is_active else change)), is_active


def _is_filter(name: str) -> bool:
    return name in _SEVERAL or name in _SINGLE or name in _SEARCHES or _is_label(name)


def _unknown(name: str, value: str) -> FieldError:
    # An unknown filter must not be ignored, because the list would then show all jobs
    if name.removesuffix(".") == "metadata":
        return FieldError("/metadata", f"write it as key=value, not as {value[:80]}", "invalid_filter")
    return FieldError(f"/{name[:80]}", "there is no such filter", "invalid_filter")


def _is_label(name: str) -> bool:
    return name.startswith(METADATA) and name != METADATA


def _field_error(error: Any) -> FieldError:
    return FieldError("/" + str(error["loc"][0]), message_of(error), str(error["type"]))


def link(request: Request, **changes: Any) -> str:
    """Return the URL of the first page of the list, with changed filters. The value None removes a filter."""
    return address(request, **{"after": None, "shown": None, **changes})


def chips(request: Request) -> list[tuple[str, str]]:
    """Return the active filters, each with its words and the URL of the list without it."""
    pairs = filters_of(request.query_params.multi_items())
    found: list[tuple[str, str]] = []
    for at, (name, value) in enumerate(pairs):
        if name != "limit" and _is_filter(name):
            others = urlencode([*pairs[:at], *pairs[at + 1 :]])
            label = FILTERS.get(name, name.removeprefix(METADATA))
            words = {"stop_reason": ending, "outcome": outcome_words, "sort": _sort_words}.get(name, str)(value)
            found.append((f"{label}: {words}", f"{request.url.path}?{others}".removesuffix("?")))
    return found


def outcome_words(value: str) -> str:
    return value.replace("_", " ")


def _sort_words(name: str) -> str:
    return SORTS[cast("Sort", name)] if name in SORTS else name


def write_shown(job_ids: Sequence[str]) -> str:
    return ".".join(each.removeprefix("job_") for each in job_ids)


def read_shown(text: str) -> list[str]:
    return only_jobs([f"job_{each}" for each in text.split(".")[:100]])


def only_jobs(texts: Sequence[str]) -> list[str]:
    """Return those texts that have the form of job ids."""
    return [text for text in texts if _JOB.fullmatch(text)]
