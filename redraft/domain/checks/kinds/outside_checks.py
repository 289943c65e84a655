"""Checks outside of Redraft: a server that the settings name, or the function of an installed package."""

from typing import Annotated, Literal

from pydantic import Field

from redraft.domain.bodies.fields import Fraction, StrictModel, Text, matching
from redraft.domain.checks.check_results import CheckedAnswer, CheckResult
from redraft.domain.text.cleaning import preview
from redraft.endpoints import CHECK_NAME

_REASON_CHARS = 2000


class OutsideCheck(StrictModel):
    """A check that a request selects by its name. A request can name neither an address nor code."""

    kind: Literal["http", "package"]
    value: Annotated[
        str,
        Field(
            description="The name of the check in REDRAFT_HTTP_CHECKS, or of its entry point.",
            json_schema_extra={"pattern": CHECK_NAME},
        ),
        matching(CHECK_NAME, "needs a letter and then at most 39 letters, digits, '_', '.' and '-'"),
    ]

    def run(self, checked: CheckedAnswer) -> CheckResult:
        return checked.ask(self.kind, self.value)


class OutsideVerdict(StrictModel):
    """The only form of a verdict. Every other value is an error, and never a pass."""

    score: Fraction
    passed: bool
    reason: Text

    def as_result(self) -> CheckResult:
        reason = preview(self.reason.strip(), _REASON_CHARS) or f"Score {self.score:g}."
        return CheckResult(self.passed, reason, self.score)
