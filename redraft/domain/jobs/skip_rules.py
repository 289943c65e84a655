"""Decide which answers no evaluator evaluates; `docs/criteria.md` describes the rules.

`skip: auto` recognises instructions that need no evaluation. Such an instruction is only small talk or only a sum. The
rule is narrow, because without an evaluation a wrong answer is returned unnoticed. A request with a format, a rubric, a
schema, sources, attachments or a reference answer is always evaluated.
"""

import hashlib
import re

from redraft.domain.jobs.requests import EvaluationFields, EvaluationOptions, GenerateAnswer
from redraft.domain.text.cleaning import fold

_SMALL_TALK = frozenset(
    {
        *("hi", "hello", "hey", "hi there", "hello there", "good morning", "good evening", "good night", "good day"),
        *("how are you", "thanks", "thank you", "thank you very much", "many thanks", "ok", "okay", "bye", "goodbye"),
        *("hallo", "guten tag", "guten morgen", "guten abend", "danke", "vielen dank", "tschüss", "wie geht es dir"),
        *("bonjour", "salut", "bonsoir", "merci", "merci beaucoup", "au revoir", "ça va"),
        *("hola", "buenos días", "buenas tardes", "gracias", "muchas gracias", "adiós", "ciao", "grazie", "buongiorno"),
        *("olá", "bom dia", "obrigado", "obrigada", "你好", "谢谢", "您好", "こんにちは", "ありがとう", "안녕하세요"),
        *("привет", "спасибо", "здравствуйте", "مرحبا", "شكرا"),
    }
)
# ASCII signs, and the Unicode signs of multiplication, division and subtraction.
_SUM_SIGNS = r"\d\s.,()+\-*/^%\u00d7\u00f7\u2212"
_SUM = re.compile(
    r"(?:(?:what is|what's|calculate|compute|was ist|berechne|combien font)\s++)?"
    rf"(?=[{_SUM_SIGNS}]*\d)[{_SUM_SIGNS}]++=?\s*\??",
    re.IGNORECASE,
)
_ENDS = " .,!?\u2026\u3002\uff01\uff1f\u00a1\u00bf\u060c\u061f"
_CHARS_MAX = 60


def skip_reason(request: EvaluationFields) -> str | None:
    """Return the reason why an instruction needs no evaluation, or None if it needs one."""
    schema = request.answer_schema if isinstance(request, GenerateAnswer) else None
    has_more = request.rubric or request.resp_format.strip() or schema or request.grounds or request.reference
    if request.evaluation.skip != "auto" or has_more or request.attachments:
        return None
    instruction = fold(request.instruct)
    if len(instruction) > _CHARS_MAX:
        return None
    if instruction.casefold().strip(_ENDS) in _SMALL_TALK:
        return "The instruction is small talk: there is nothing to evaluate."
    if _SUM.fullmatch(instruction):
        return "The instruction is a sum: there is nothing to evaluate."
    return None


def reason_for_no_evaluator(options: EvaluationOptions, job_id: str, answer: str) -> str | None:
    """Return the reason why evaluators are not called for an answer, or None if they are called."""
    if len(answer.strip()) < options.min_answer_chars:
        return f"The answer has fewer than {options.min_answer_chars} characters, so it is not evaluated."
    if _place(job_id) >= options.sample:
        return f"Evaluators are called for a share of {options.sample:g} of the jobs, and not for this one."
    return None


def _place(job_id: str) -> float:
    """Return a number in [0, 1) that is always the same for a job, and evenly spread over the jobs."""
    return int.from_bytes(hashlib.sha256(job_id.encode()).digest()[:6]) / 2**48
