"""The grounding rule: which sentences no source supports, and whether the answer may be accepted.

The rule compares markers, words and numbers. Only the claim check can evaluate a sentence that cites a source in other
words. docs/grounding.md describes the rule.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from redraft.domain.grounding.citation_markers import Style
from redraft.domain.grounding.citations import Issue, format_marker
from redraft.domain.grounding.non_statements import asks_for_sources
from redraft.domain.grounding.scoring import Grounding, ScoredSentence
from redraft.domain.text.cleaning import preview

# At least this share of the statements must cite a source, or share half of their words with a source. The other
# statements may be the answer's own conclusions.
SUPPORTED_SHARE_MIN = 0.8

_PROBLEMS_MAX = 10
_TEXT_CHARS = 300

_SILENT = "The answer states nothing that can be held against the sources: write sentences, and cite."

_UNASKED = "No sources were given: say so, ask for them, and state nothing else."

Reason = Literal["number", "uncited", "unrelated"]


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A sentence that no source supports, with its position in characters of the answer.

    Attributes:
        reason: `number`: it contains a number that is in no source; `uncited`: it cites no source and resembles none;
            `unrelated`: it cites a source, but shares no word with any source in its language.
    """

    text: str
    reason: Reason
    missing_numbers: tuple[str, ...]
    start_pos: int
    end_pos: int


@dataclass(frozen=True, slots=True)
class Support:
    """The result of the grounding rule."""

    met: bool  # The answer may be accepted
    is_sound: bool  # No marker is wrong, and each number is in a source
    unsupported: tuple[Unsupported, ...]
    problems: tuple[str, ...]  # Feedback for the generator


def find_support(
    grounding: Grounding, issues: Sequence[Issue], *, sources: int, must_cite: bool, style: Style = "inline"
) -> Support:
    """Apply the grounding rule to the scored sentences and the marker issues of an answer.

    Without sources every statement is unsupported. With `must_cite`, an answer that states something has to cite a
    source. The feedback asks for markers in the spelling of `style`.
    """
    if sources == 0:
        return _without_sources(grounding, issues)
    compares_words = must_cite or not grounding.is_foreign
    uncited = list(_unsupported(grounding, compares_words=compares_words))
    unsourced = [_unsupported_by(each, "number") for each in grounding.unsourced]
    unsupported = tuple(sorted((*uncited, *unsourced), key=lambda each: each.start_pos))
    is_silent = must_cite and grounding.is_silent
    cites_nothing = must_cite and bool(grounding.sentences) and not grounding.sources_used
    is_sound = not issues and all(each.reason != "number" for each in unsupported)
    share = 1 - len(uncited) / len(grounding.sentences) if grounding.sentences else 1.0
    return Support(
        met=is_sound and not cites_nothing and not is_silent and share >= SUPPORTED_SHARE_MIN,
        is_sound=is_sound,
        unsupported=unsupported,
        problems=(
            *_wrong_markers(issues),
            *((_missing(style),) if cites_nothing else ()),
            *shortened([_feedback_on(each) for each in unsupported], "more statements have no support"),
            *((_SILENT,) if is_silent else ()),
        ),
    )


def _without_sources(grounding: Grounding, issues: Sequence[Issue]) -> Support:
    """Apply the rule to an answer without sources: every statement is invented."""
    stated = tuple(_unsupported_by(each, "uncited") for each in grounding.sentences if not asks_for_sources(each.text))
    is_met = not issues and not stated
    problems = (*_wrong_markers(issues), *((_UNASKED,) if stated else ()))
    return Support(met=is_met, is_sound=is_met, unsupported=stated, problems=problems)


def _unsupported(grounding: Grounding, *, compares_words: bool) -> Iterable[Unsupported]:
    for each in grounding.sentences:
        is_supported = each.cited or each.rests_on or each.support != "none"
        if each.missing_numbers:
            yield _unsupported_by(each, "number")
        elif not is_supported and compares_words:
            yield _unsupported_by(each, "uncited")
        elif each.cited and each.overlap == 0 and not grounding.is_foreign:
            yield _unsupported_by(each, "unrelated")


def _unsupported_by(sentence: ScoredSentence, reason: Reason) -> Unsupported:
    missing = sentence.missing_numbers if reason == "number" else ()
    return Unsupported(sentence.text, reason, missing, sentence.start, sentence.end)


def _missing(style: Style) -> str:
    if style == "endnote":
        return 'The answer cites no source: end with a line "Sources:" and beneath it [Source 1] and the like.'
    wanted = format_marker([1], style)
    return f"The answer cites no source: name the source behind each statement by its number, as in {wanted}."


def _wrong_markers(issues: Sequence[Issue]) -> list[str]:
    what_to_do = " Cite a source that exists, or delete the marker."
    # The messages of these two codes already say what to do.
    wrong = [each.message + ("" if each.code in {"too_many", "unread_mark"} else what_to_do) for each in issues]
    return shortened(wrong, "more citation markers are wrong")


def _feedback_on(each: Unsupported) -> str:
    if each.reason == "number":
        numbers = ", ".join(each.missing_numbers[:5])
        return f"No source holds the number {numbers} in {quoted(each.text)}. Correct it, or delete it."
    if each.reason == "unrelated":
        return f"The source that is cited says nothing of {quoted(each.text)}. Cite the one that does, or delete it."
    advice = "Cite the source that says so, or soften or delete the statement."
    return f"No source is given for {quoted(each.text)}. {advice}"


def quoted(text: str) -> str:
    """Quote a statement for feedback: shortened and on one line."""
    return f'"{preview(" ".join(text.split()), _TEXT_CHARS)}"'


def shortened(lines: Sequence[str], rest: str) -> list[str]:
    """Return the first lines and the number of the others, so that feedback stays short."""
    more = len(lines) - _PROBLEMS_MAX
    return [*lines[:_PROBLEMS_MAX], *([f"{more} {rest}."] if more > 0 else [])]
