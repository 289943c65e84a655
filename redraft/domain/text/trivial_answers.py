"""Recognise answers without content, which evaluator models often accept."""

import re
import unicodedata

from redraft.domain.text.cleaning import fold

# Letters and symbols that print nothing: Hangul fillers, the blank Braille pattern, the replacement character.
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800\ufffd")
_ASCII_SYMBOLS = frozenset("$+<=>^`|~")
_EMPTY_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Sk"})


def _listed(names: str) -> frozenset[str]:
    return frozenset(" ".join(names.split()).split(", "))


# Lead-ins that evaluator models accepted as answers (arXiv 2507.08794), and similar ones.
_LEAD_INS = _listed("""
    answer, final answer, here is my answer, here is the answer, here is the solution, here's my answer, here's
    the answer, here's the solution, i will solve this step by step, i'll solve this step by step, let me solve
    this step by step, let me think, let me think step by step, let's begin, let's solve this problem, let's
    solve this problem step by step, let's solve this step by step, let's think step by step, my answer, my
    answer is, solution, the answer, the answer is, the final answer, the final answer is, the solution, the
    solution is, thinking process, thought process, lösung, respuesta, réponse, かいせつ, 解, 解答
""")
# Words that may be a real answer. With a colon they are only a lead-in.
_LABELS = _listed("""
    analysis, assistant, explanation, output, reasoning, response, result, step by step, sure, thinking,
    thought, thoughts
""")


# An empty pair of the tags that models write around answers and thoughts.
_EMPTY_WRAPPER = re.compile(r"<(answer|think|thinking|thought|response|output|result)>\s*</\1>", re.IGNORECASE)


def is_trivial(answer: str) -> bool:
    """Whether an answer is empty, only punctuation, or a bare lead-in such as "Thought process:".

    Evaluator models often accept such answers, so code rejects them first.
    """
    words = _words_of(_EMPTY_WRAPPER.sub("", answer))
    if not words or words in _LEAD_INS:
        return True
    return words in _LABELS and any(colon in answer for colon in ":\uff1a")


def _words_of(text: str) -> str:
    """Return the words of a text in lower case, without invisible characters, and without punctuation at the ends."""
    visible = "".join(char for char in text if unicodedata.category(char) != "Cf")
    words = fold(visible.replace("\u2019", "'")).casefold()
    meaningful = [at for at, char in enumerate(words) if _has_meaning(char)]
    return words[meaningful[0] : meaningful[-1] + 1] if meaningful else ""


def _has_meaning(char: str) -> bool:
    category = unicodedata.category(char)
    is_empty = category[0] in "ZPM" or category in _EMPTY_CATEGORIES
    return not is_empty and char not in _BLANK and char not in _ASCII_SYMBOLS
