"""Claim checks: the labels of an evaluator for each claim of an answer, and the verification of its quotes.

A claim is supported only if the evaluator labels it so and its source contains the quote word for word
(docs/grounding.md).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal, cast

from redraft.domain.evaluation.json_extraction import Found, UnreadableError, repeated_in
from redraft.domain.evaluation.reply_members import flag_of, plain, plain_members, sentence_of, text_of, texts_of
from redraft.domain.evaluation.scores import fraction_or_none
from redraft.domain.grounding.quotes import Quotable, find_quote, read_quotable
from redraft.domain.grounding.support import quoted, shortened
from redraft.domain.text.cleaning import fold

CLAIMS_MAX = 200

Label = Literal["supported", "contradicted", "not_found"]
LABEL_NAMES = ("label", "verdict", "supported")
_LABELS: Mapping[str, Label] = {
    **dict.fromkeys(("supported", "entailed", "true", "yes"), "supported"),
    **dict.fromkeys(("contradicted", "refuted", "contradiction"), "contradicted"),
    **dict.fromkeys(("notfound", "unsupported", "notsupported", "neutral", "notmentioned", "false", "no"), "not_found"),
}
_NO_SOURCE = "No source says so."
_ENDS = " .!?\u3002"
_DIGITS = re.compile(r"(?<![\d.-])\d{1,9}(?!\d|\.[1-9])")


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of an answer.

    Attributes:
        supported: the evaluator labels the claim as supported, and the source contains the quote.
        label: the evaluator's label; `not_found` instead of `supported` if the quote is not in the source.
        source: the number of the source that the evaluator names.
        start: the position of the quote in the source, up to `end`; both are None without a quote in the text.
        problem: the reason why the claim is not supported; empty for a supported claim.
    """

    claim: str
    supported: bool
    label: Label
    source: int | None
    quote: str
    start: int | None
    end: int | None
    problem: str

    @property
    def advice(self) -> str:
        """The change to make in the next answer."""
        wrong = self.label == "contradicted"
        change = "Correct it." if wrong else "Cite a source that says so, or soften or delete the statement."
        return f"The claim {quoted(self.claim)} is not supported. {self.problem} {change}"


@dataclass(frozen=True, slots=True)
class ClaimCheck:
    """The check of all claims of an answer. `grounded` is the evaluator's own opinion, which is only reported."""

    claims: tuple[Claim, ...]
    grounded: bool | None
    confidence: float | None
    is_repaired: bool

    @property
    def score(self) -> float | None:
        """The share of supported claims, or None if there are no claims."""
        return fmean(each.supported for each in self.claims) if self.claims else None

    @property
    def problems(self) -> tuple[str, ...]:
        """The changes to make in the next answer."""
        return tuple(
            shortened([each.advice for each in self.claims if not each.supported], "more claims have no support")
        )


class QuotedSources:
    """Sources in which quotes are searched for. Each source is normalised at its first search."""

    def __init__(self, contents: Sequence[str], headings: Sequence[str] = ()) -> None:
        self._contents = contents
        self._headings = headings
        self._read: dict[int, Quotable] = {}

    @property
    def count(self) -> int:
        return len(self._contents)

    def find(self, number: int | None, quote: str) -> tuple[int | None, int | None] | None:
        """Return the start and end of a quote in a source, or None if the source does not contain it.

        The result for a quote from the title or the metadata is (None, None).
        """
        if number is None or not quote or not 1 <= number <= self.count:
            return None
        if number not in self._read:
            self._read[number] = read_quotable(self._contents[number - 1])
        headings = self._headings[number - 1 : number]
        is_heading = any(find_quote(quote, heading) is not None for heading in headings)
        return find_quote(quote, self._read[number]) or ((None, None) if is_heading else None)


def has_claims(value: Mapping[str, Any]) -> bool:
    return isinstance(plain_members(value).get("claims"), list)


def read_check(found: Found, sources: QuotedSources) -> ClaimCheck:
    """Read the claims of an evaluator's reply, and search for each quote.

    Raises:
        UnreadableError: the claims are too many, incomplete or ambiguous.
    """
    members = plain_members(found.value)
    entries = cast("list[Any]", members["claims"])
    if len(entries) > CLAIMS_MAX:
        words = f"The reply names {len(entries)} claims; at most {CLAIMS_MAX} are read."
        raise UnreadableError("incomplete", words)
    keys = [key for key in found.value if plain(key) == "claims"]
    if len(keys) > 1 or found.value.repeated.intersection(keys) or any(map(repeated_in, entries)):
        raise UnreadableError("ambiguous", "The reply names its claims, or a part of one, more than once.")
    claims = [_claim(plain_members(entry), sources) for entry in entries]
    united = _united([*claims, *_ungrounded(members.get("ungroundedclaims"), claims)])
    grounded = flag_of(members.get("grounded"))
    return ClaimCheck(united, grounded, fraction_or_none(members.get("confidence")), is_repaired=False)


def is_label(supported: bool, value: str) -> bool:  # noqa: FBT001 - bound by partial
    """Return whether a word is a possible label: if `supported` is true, only `supported`, otherwise any label."""
    label = _LABELS.get(plain(value))
    return label == "supported" if supported else label is not None


def merge_checks(checks: Sequence[ClaimCheck]) -> ClaimCheck:
    """Merge the checks of several evaluators.

    A claim counts as supported if most of the evaluators that name it label it as supported.
    """
    votes: dict[str, list[Claim]] = {}
    for claim in (claim for check in checks for claim in check.claims):
        votes.setdefault(_key(claim.claim), []).append(claim)
    elected = {key: majority(claim.supported for claim in claims) for key, claims in votes.items()}
    return ClaimCheck(
        tuple(next(each for each in claims if each.supported == elected[key]) for key, claims in votes.items()),
        grounded=majority(check.grounded for check in checks),
        confidence=mean_of_known(check.confidence for check in checks),
        is_repaired=any(check.is_repaired for check in checks),
    )


def majority(flags: Iterable[bool | None]) -> bool | None:
    """Return whether more than half of the known flags are true, or None if no flag is known."""
    known = [flag for flag in flags if flag is not None]
    return sum(known) * 2 > len(known) if known else None


def mean_of_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _key(text: str) -> str:
    return fold(text).casefold().rstrip(_ENDS)


def _united(claims: Sequence[Claim]) -> tuple[Claim, ...]:
    """Return each claim once. A claim with both labels, supported and unsupported, is unsupported."""
    known: dict[str, Claim] = {}
    for claim in claims:
        before = known.get(_key(claim.claim))
        if before is None or (before.supported and not claim.supported):
            known[_key(claim.claim)] = claim
    return tuple(known.values())


def _ungrounded(value: Any, claims: Sequence[Claim]) -> list[Claim]:
    """Read the separate list of ungrounded claims. A claim in this list counts as unsupported."""
    known = {_key(claim.claim) for claim in claims if not claim.supported}
    items = cast("list[Any]", value) if isinstance(value, list) else texts_of(value)
    texts = [text for item in items[:CLAIMS_MAX] if (text := sentence_of(plain_members(item).get("claim") or item))]
    return [
        Claim(text, supported=False, label="not_found", source=None, quote="", start=None, end=None, problem=_NO_SOURCE)
        for text in texts
        if _key(text) not in known
    ]


def _claim(entry: Mapping[str, Any], sources: QuotedSources) -> Claim:
    claim, label = text_of(entry.get("claim")).strip(), _label(entry)
    if not claim or label is None:
        raise UnreadableError("incomplete", 'Each entry of "claims" needs a "claim" and a "label".')
    # Models add words to the number, as in "Source 2". If there is only one source, they may omit the number.
    digits = _DIGITS.search(text_of(entry.get("source")))
    source = int(digits[0]) if digits else 1 if sources.count == 1 else None
    quote = sentence_of(entry.get("quote"))
    place = sources.find(source, quote)
    problem = _problem(label, source, quote, is_there=place is not None)
    if label == "supported" and problem:
        label = "not_found"
    return Claim(claim, not problem, label, source, quote, *(place or (None, None)), problem)


def _problem(label: Label, source: int | None, quote: str, *, is_there: bool) -> str:
    if label == "not_found":
        return _NO_SOURCE
    if label == "contradicted":
        return f"Source {source} says otherwise." if is_there else "A source says otherwise."
    if is_there:
        return ""
    if not quote:
        return "No quote was given that supports it."
    # The message omits the quote: it is untrusted text, and the generator reads the message.
    return f"Source {source} does not hold the quote." if source else "No source was named for the quote."


def _label(entry: Mapping[str, Any]) -> Label | None:
    words = [text_of(entry[name]) for name in LABEL_NAMES if entry.get(name) is not None]
    labels: set[Label] = {_LABELS.get(plain(word), "not_found") for word in words}
    # A claim with contradictory labels must not count as supported.
    return labels.pop() if len(labels) == 1 else "not_found" if labels else None
