"""The claim check: what a judge says of each claim, and what of it holds. A quote counts if its source has it.

A claim is supported only if the judge says so and a source holds the quote word for word; docs/grounding.md has it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal, cast

from redraft.domain.evaluation.json_extraction import Found, Unusable, repeated_in
from redraft.domain.evaluation.reply_members import (
    flag_of,
    fraction_or_none,
    plain,
    plain_members,
    sentence_of,
    text_of,
    texts_of,
)
from redraft.domain.grounding.quotes import Quotable, find_quote, read_quotable
from redraft.domain.grounding.support import quoted, shortened
from redraft.domain.text.cleaning import fold

CLAIMS_MAX = 200

Label = Literal["supported", "contradicted", "not_found"]
_LABELS: Mapping[str, Label] = {
    **dict.fromkeys(("supported", "entailed", "true", "yes"), "supported"),
    **dict.fromkeys(("contradicted", "refuted", "contradiction"), "contradicted"),
    **dict.fromkeys(("notfound", "unsupported", "notsupported", "neutral", "notmentioned", "false", "no"), "not_found"),
}


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of an answer, and whether a source backs it.

    Attributes:
        supported: the judge says so, and the source holds the quote.
        label: the judge's word; `not_found` instead of `supported` where the quote is not in the source.
        source: the number of the source that the judge names.
        start: where the quote begins, in characters of that source; None when it is in none.
        end: where it is over.
        problem: why it is not supported; empty if it is.
    """

    claim: str
    supported: bool
    label: Label
    source: int | None
    quote: str
    start: int | None
    end: int | None
    problem: str


@dataclass(frozen=True, slots=True)
class ClaimCheck:
    """What came of all claims.

    Attributes:
        grounded: the judge's word for the whole answer, None when it gave none; it never decides.
        is_repaired: the reply was not valid JSON.
    """

    claims: tuple[Claim, ...]
    grounded: bool | None
    confidence: float | None
    is_repaired: bool

    @property
    def score(self) -> float | None:
        """The share of supported claims; None without any."""
        return sum(each.supported for each in self.claims) / len(self.claims) if self.claims else None

    @property
    def problems(self) -> tuple[str, ...]:
        """What to change, for whoever writes the next answer."""
        wrong = [_problem_of(each) for each in self.claims if not each.supported]
        return tuple(shortened(wrong, "more claims have no support"))


class QuotedSources:
    """Sources as quotes are looked for in them; each is read when it is first needed."""

    def __init__(self, contents: Sequence[str], headings: Sequence[str] = ()) -> None:
        self._contents = contents
        self._headings = headings
        self._read: dict[int, Quotable] = {}

    @property
    def count(self) -> int:
        return len(self._contents)

    def find(self, number: int | None, quote: str) -> tuple[int, int] | None:
        """Where the source of that number holds the quote, in characters of it."""
        if number is None or not quote or not 1 <= number <= self.count:
            return None
        if number not in self._read:
            self._read[number] = read_quotable(self._contents[number - 1])
        return find_quote(quote, self._read[number])

    def heads(self, number: int | None, quote: str) -> bool:
        """Whether the quote stands in what is known of the source beside its content."""
        if number is None or not quote or not 1 <= number <= len(self._headings):
            return False
        return find_quote(quote, self._headings[number - 1]) is not None


def read_check(found: Found, sources: QuotedSources) -> ClaimCheck | Unusable:
    """Read the claims of an evaluator's reply, and look for each quote."""
    members = plain_members(found.value)
    entries = cast("list[Any]", members["claims"])
    if len(entries) > CLAIMS_MAX:
        return Unusable("incomplete", f"The reply names {len(entries)} claims; at most {CLAIMS_MAX} are looked at.")
    if _is_repeated(found) or any(repeated_in(entry) for entry in entries):
        return Unusable("ambiguous", "The reply names its claims, or a part of one, more than once.")
    claims = [_claim(plain_members(entry), sources) for entry in entries]
    named = [claim for claim in claims if claim is not None]
    if len(named) < len(claims):
        return Unusable("incomplete", 'Each entry of "claims" needs a "claim" and a "label".')
    united = _united([*named, *_listed(members.get("ungroundedclaims"), named)])
    grounded = flag_of(members.get("grounded"))
    return ClaimCheck(united, grounded, fraction_or_none(members.get("confidence")), is_repaired=False)


def without_claims(unusable: Unusable) -> Unusable:
    """Why there is no check, in the words of this profile."""
    if unusable.kind != "missing_score":
        return unusable
    return Unusable("incomplete", 'The reply is a JSON object without a list "claims" of its own.')


LABEL_NAMES = ("label", "verdict", "supported")


def is_label(supported: bool, value: str) -> bool:  # noqa: FBT001 - bound by partial
    """Whether a word is a label, and says that a claim is supported where it is."""
    label = _LABELS.get(plain(value))
    return label == "supported" if supported else label is not None


def merge_checks(checks: Sequence[ClaimCheck]) -> ClaimCheck:
    """What several judges found: a claim holds if more of those who name it call it supported than not."""
    votes: dict[str, list[Claim]] = {}
    for claim in (claim for check in checks for claim in check.claims):
        votes.setdefault(_key(claim.claim), []).append(claim)
    flags = [check.grounded for check in checks if check.grounded is not None]
    sure = [check.confidence for check in checks if check.confidence is not None]
    return ClaimCheck(
        claims=tuple(_elected(claims) for claims in votes.values()),
        grounded=sum(flags) * 2 > len(flags) if flags else None,
        confidence=fmean(sure) if sure else None,
        is_repaired=any(check.is_repaired for check in checks),
    )


def _elected(claims: Sequence[Claim]) -> Claim:
    holds = sum(claim.supported for claim in claims) * 2 > len(claims)
    return next(claim for claim in claims if claim.supported == holds)


def has_claims(value: Mapping[str, Any]) -> bool:
    """Whether an object lists claims."""
    return isinstance(plain_members(value).get("claims"), list)


def _is_repeated(found: Found) -> bool:
    keys = [key for key in found.value if plain(key) == "claims"]
    return len(keys) > 1 or bool(found.repeated.intersection(keys))


def _key(text: str) -> str:
    return fold(text).casefold().rstrip(_STOPS)


def _united(claims: Sequence[Claim]) -> tuple[Claim, ...]:
    """Each claim once: who calls one both supported and not has not supported it."""
    known: dict[str, Claim] = {}
    for claim in claims:
        before = known.get(_key(claim.claim))
        if before is None or (before.supported and not claim.supported):
            known[_key(claim.claim)] = claim
    return tuple(known.values())


def _listed(value: Any, named: Sequence[Claim]) -> list[Claim]:
    """What the judge lists as ungrounded beside the claims: it takes away support, and gives none."""
    known = {_key(claim.claim): claim.claim for claim in named if not claim.supported}
    items = cast("list[Any]", value) if isinstance(value, list) else texts_of(value)
    texts = [text for item in items[:CLAIMS_MAX] if (text := sentence_of(plain_members(item).get("claim") or item))]
    return [
        Claim(text, supported=False, label="not_found", source=None, quote="", start=None, end=None, problem=_NO_SOURCE)
        for text in texts
        if _key(text) not in known
    ]


_STOPS = " .!?\u3002"
_NO_SOURCE = "No source says so."


def _claim(entry: Mapping[str, Any], sources: QuotedSources) -> Claim | None:
    claim, label = text_of(entry.get("claim")).strip(), _label(entry)
    if not claim or label is None:
        return None
    quote, source = sentence_of(entry.get("quote")), _number(entry.get("source"), sources)
    start, end = sources.find(source, quote) or (None, None)
    is_there = start is not None or sources.heads(source, quote)
    problem = _problem(label, source, quote, is_there=is_there)
    if label == "supported" and problem:
        label = "not_found"
    return Claim(claim, not problem, label, source, quote, start, end, problem)


def _problem(label: Label, source: int | None, quote: str, *, is_there: bool) -> str:
    if label == "not_found":
        return _NO_SOURCE
    if label == "contradicted":
        return f"Source {source} says otherwise." if is_there else "A source says otherwise."
    if is_there:
        return ""
    if not quote:
        return "No quote was given that supports it."
    # Without the quote: it is a source's text, and this goes to the writer as an instruction
    return f"Source {source} does not hold the quote." if source else "No source was named for the quote."


def _label(entry: Mapping[str, Any]) -> Label | None:
    said = [text_of(entry[name]) for name in ("label", "verdict", "supported") if entry.get(name) is not None]
    labels: set[Label] = {_LABELS.get(plain(word), "not_found") for word in said}
    # Who calls a claim both supported and not has not supported it
    return labels.pop() if len(labels) == 1 else "not_found" if labels else None


_DIGITS = re.compile(r"(?<![\d.-])\d{1,9}(?!\d|\.[1-9])")


def _number(value: Any, sources: QuotedSources) -> int | None:
    digits = _DIGITS.search(text_of(value))
    return int(digits[0]) if digits else 1 if sources.count == 1 else None


def _problem_of(claim: Claim) -> str:
    advice = "Correct it." if claim.label == "contradicted" else "Cite a source that says so, soften it, or delete it."
    return f"The claim {quoted(claim.claim)} is not supported. {claim.problem} {advice}"
