"""Improvements of a run's request: which rows a draft may see, and which changes of the request it may make."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeGuard, cast

from pydantic import TypeAdapter

from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.domain.evaluation.rubrics import Criterion, misread_checks, statement_of
from redraft.domain.text.cleaning import clean

HELD_OUT_NEEDED = 6
"""The minimum number of rows with which McNemar's exact test can find a difference at a significance level of 5 %."""

_CRITERION: TypeAdapter[Criterion] = TypeAdapter(Criterion)
TextField = Literal["instruct", "resp_format"]
TEXT_FIELDS: tuple[TextField, ...] = ("instruct", "resp_format")


def is_held_out(custom_id: str) -> bool:
    """Whether drafts must not see a row. The id decides, so that the decision is the same in each run and dataset."""
    return hashlib.sha256(custom_id.encode("utf-8", "surrogatepass")).digest()[0] % 2 == 1


@dataclass(frozen=True, slots=True)
class SharedRequest:
    """The fields of a run's request that a draft may change: those that the run sets for all rows.

    `rubric` is the rubric of the run, and empty if the run sets no rubric.
    """

    texts: Mapping[TextField, str]
    rubric: Sequence[Mapping[str, Any]] = ()

    @property
    def shown_criteria(self) -> list[Criterion]:
        """The criteria that a draft may reword. Hidden criteria must not influence the generator."""
        return [each for each in map(_CRITERION.validate_python, self.rubric) if not each.hidden]


def shared_request(run_fields: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> SharedRequest:
    """Return the changeable fields of a run. `run_fields` are its defaults and overrides, `rows` the fields of rows."""
    of_rows = frozenset(name for row in rows for name in row)
    texts: dict[TextField, str] = {}
    for name in TEXT_FIELDS:
        # The form of the answer may be missing, but each row needs a task
        if name not in of_rows and (name in run_fields or name == "resp_format"):
            texts[name] = run_fields.get(name) or ""
    return SharedRequest(texts, () if "rubric" in of_rows else run_fields.get("rubric") or ())


@dataclass(frozen=True, slots=True)
class FailingRow:
    """A row whose returned answer was not accepted."""

    task: str
    answer: str
    verdict: str


def failing_rows(items: Iterable[Mapping[str, Any]]) -> list[FailingRow]:
    """For each row that drafts may see, return the first answer that was not accepted. `items` are results of a run."""
    found: dict[str, FailingRow] = {}
    for item in items:
        name = item["custom_id"]
        if item["success"] is False and item["final_answer"] and name not in found and not is_held_out(name):
            gaps = [f"- {each}" for each in item["improvement_suggestions"] or ()]
            verdict = "\n".join([item["evaluation_reasoning"] or "", *gaps]).strip()
            found[name] = FailingRow(item["instruct"] or "", item["final_answer"], verdict)
    return list(found.values())


def why_none_fails(outcomes: Iterable[ItemOutcome]) -> str:
    """Say why a run has no answer that can be shown to the model that writes drafts."""
    seen = [each for each in outcomes if not is_held_out(each.custom_id)]
    if not seen:
        return "All rows of the run are held out, and drafts must not see them. Is the run the trial of a draft?"
    if not any(each.has_verdict for each in seen):
        return "None of the rows that are not held out has an evaluated answer, so there is no answer to improve."
    return "Each evaluated answer of the rows that are not held out was accepted, so there is nothing to improve."


def count_failures(outcomes: Iterable[ItemOutcome]) -> dict[str, str]:
    """Return in words how many answers did not meet each criterion. Rows that are held out are not counted."""
    seen = [each for item in outcomes if not is_held_out(item.custom_id) for each in item.criteria]
    known = Counter(each.id for each in seen if each.returned is not None)
    failed = Counter(each.id for each in seen if each.returned is False)
    return {name: f" - not met by {failed[name]} of {count} answers" for name, count in known.items()}


def unanswered_rows(items: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the rows of a run that ended without an answer. A canceled item says nothing about the request."""
    return [each["custom_id"] for each in items if not each["final_answer"] and each["status"] != "canceled"]


def with_rejected(outcomes: Iterable[ItemOutcome], unanswered: Iterable[str]) -> list[ItemOutcome]:
    """Return the outcomes of a run, in which rows without an answer count as not accepted, with score 0.

    Otherwise a request would look better if hard rows have no answer.
    """
    rejected = {
        name: ItemOutcome(name, status="succeeded", success=False, first_score=0, final_score=0) for name in unanswered
    }
    return [*(each for each in outcomes if each.custom_id not in rejected), *rejected.values()]


@dataclass(frozen=True, slots=True)
class Improvement:
    """The changes of a draft: for each changed field, the value before and after, and the model's reasons."""

    reasons: str
    before: Mapping[str, Any] = field(default_factory=dict[str, Any])
    after: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def texts(self) -> list[tuple[str, str, str]]:
        """Each changed text: its field or criterion, the old text, and the new one."""
        names = [name for name in TEXT_FIELDS if name in self.after]
        return [
            *((name, self.before[name], self.after[name]) for name in names),
            *((f"criterion {new['id']}", old.get("text", ""), new["text"]) for old, new in self._criteria),
        ]

    @property
    def _criteria(self) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        pairs = zip(self.before.get("rubric", ()), self.after.get("rubric", ()), strict=True)
        return [(old, new) for old, new in pairs if old != new]


def is_decided_by_code(fields: Mapping[str, Any]) -> bool:
    """Whether only checks evaluate the answer to a row.

    An evaluator model also sees the request. So a draft, which changes the request, could change its verdicts.
    """
    return bool(fields.get("rubric")) and all(each.get("kind") == "check" for each in fields["rubric"])


def read_improvement(reply: Any, shared: SharedRequest) -> Improvement:
    """Read the reply to a draft prompt. Raises ValueError, with a sentence for people, if the reply cannot be used."""
    if not _is_object(reply):
        raise ValueError("It is no JSON object.")
    known = {"reasons", *shared.texts, *(["rubric"] if shared.shown_criteria else [])}
    if unknown := sorted(map(str, reply.keys() - known)):
        raise ValueError(f"It has fields that a draft cannot change: {', '.join(unknown)}.")
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    for name, old in shared.texts.items():
        new = _text(reply.get(name, old), name)
        if name == "instruct" and not new:
            raise ValueError("`instruct` is empty.")
        if new != old.strip():
            before[name], after[name] = old, new
    rubric = _reworded(reply.get("rubric", []), shared)
    if rubric != list(shared.rubric):
        before["rubric"], after["rubric"] = list(shared.rubric), rubric
    if not after:
        raise ValueError("It changes nothing.")
    return Improvement(_text(reply.get("reasons", ""), "reasons"), before, after)


def _reworded(entries: Any, shared: SharedRequest) -> list[Mapping[str, Any]]:
    if not isinstance(entries, list):
        raise ValueError("`rubric` is no list.")  # noqa: TRY004 - callers expect ValueError
    criteria = {each.id: each for each in shared.shown_criteria}
    texts: dict[str, str] = {}
    for entry in cast("list[Any]", entries):
        if not _is_object(entry) or entry.keys() != {"id", "text"}:
            raise ValueError("Each entry of `rubric` needs an `id` and a `text`, and nothing else.")
        name, text = _text(entry["id"], "id"), _text(entry["text"], "text")
        if name not in criteria or name in texts or not text:
            raise ValueError(f"`rubric` has {name!r} twice, without a text, or although the run has no such criterion.")
        reworded = criteria[name].model_copy(update={"text": text})
        if errors := misread_checks([reworded]):
            raise ValueError(f"Criterion {name!r}: {errors[0].detail}")
        if text != statement_of(criteria[name]):
            texts[name] = text
    return [{**each, "text": texts[each["id"]]} if each["id"] in texts else each for each in shared.rubric]


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"`{name}` is no text.")  # noqa: TRY004 - callers expect ValueError
    return clean(value).strip()
