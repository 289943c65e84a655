"""`python -m tests.rules.patterns`: each regular expression of our own on texts that are made to keep it busy.

For each repetition in a pattern there is a text that leads to it, then what it repeats, many times, then what fits
nowhere: so a pattern that tries again and again is found by its own shape. What takes too long is written to standard
output, a line each: exponential and cubic growth by a limit of CPU time, quadratic growth by comparing two lengths.
"""

import ast
import importlib
import json
import re
import signal
import sys
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from re import _constants as tokens  # pyright: ignore[reportAttributeAccessIssue]
from re import _parser as parser  # pyright: ignore[reportAttributeAccessIssue]
from typing import Any

from redraft import caching
from tests.rules.sources import PACKAGES, ROOT, dotted, nodes

LENGTH = 1_000
CPU_S = 0.1
# What is not looked at again, at LENGTH and at the longer length: a quadratic pattern takes more.
_NOTICED_S, _LONGER_NOTICED_S = 0.0005, 0.003
_TIMES_LONGER = 4
# Linear growth is 4, quadratic growth 16.
_GROWTH_MAX = 9
_MANY = 8
_FUNCTIONS = {f"re.{name}" for name in ("search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer")}
_OF_CATEGORY = {
    "CATEGORY_DIGIT": "1",
    "CATEGORY_SPACE": " ",
    "CATEGORY_WORD": "a",
    "CATEGORY_NOT_DIGIT": "a",
    "CATEGORY_NOT_SPACE": "a",
    "CATEGORY_NOT_WORD": "-",
}
_ANYWHERE = ("a", " ", "\n", "1", "-", "_", "<", "[", "{", '"', "\\", "a ", "1,", "<a ", "[1] ", "```\n", "é", "中")
_REPEATS = (tokens.MAX_REPEAT, tokens.MIN_REPEAT, tokens.POSSESSIVE_REPEAT)
_ANCHORED = frozenset({"match", "fullmatch"})
_NOWHERE = ("\x00", "!\n")


# Patterns that are quadratic, and the length of what they search: so much and no more is cut out of a text.
BOUNDED = {
    ("redraft.domain.grounding.citation_markers", "_WORD_END"): 50,
    ("redraft.domain.structured.patterns", "_ESCAPED"): 1_000,
    ("redraft.domain.text.answer_stream", "_MAY_END_THE_TURN"): 200,
}


@dataclass(frozen=True)
class Found:
    """A pattern, where it stands, and the methods by which it is used."""

    module: str
    pattern: re.Pattern[str]
    methods: frozenset[str] = frozenset({"finditer"})


@dataclass(frozen=True)
class Attack:
    """What leads to a repetition, what it repeats, and what fits nowhere."""

    before: str
    pump: str
    after: str

    def text(self, length: int) -> str:
        return self.before + self.pump * (length // max(1, len(self.pump))) + self.after


class TooSlow(Exception):  # noqa: N818 - a fact about a pattern
    """More CPU time than a text of this length may take."""


def collect() -> list[Found]:
    """What our modules compile when they are imported, and the literals that their functions hand to `re`."""
    found = dict[tuple[Any, int], Found]()
    compile_one = re.compile

    def record(pattern: Any, flags: int = 0) -> Any:
        compiled = compile_one(pattern, flags)
        module = sys._getframe(1).f_globals["__name__"]
        if module.partition(".")[0] in PACKAGES:
            found.setdefault((compiled.pattern, compiled.flags), Found(module, compiled))
        return compiled

    re.compile = record
    # Compiled at once, while it is known for which module
    caching.lazy_pattern = record
    for path, node in nodes(*PACKAGES):
        if isinstance(node, ast.Module):
            _import(path)
    re.compile = compile_one
    for path, node in nodes(*PACKAGES):
        for pattern in _literal(node):
            found.setdefault((pattern.pattern, pattern.flags), Found(path, pattern))
    used, names = _methods(), _names()
    if gone := BOUNDED.keys() - set[tuple[str, str]]().union(*names.values()):
        raise LookupError(f"BOUNDED names patterns that are none: {gone}")
    return [
        replace(
            each,
            methods=frozenset[str]().union(*(used[at] | used["", at[1]] for at in names.get(key, ()))) or each.methods,
        )
        for key, each in found.items()
        if isinstance(each.pattern.pattern, str) and BOUNDED.keys().isdisjoint(names.get(key, ()))
    ]


def _methods() -> dict[tuple[str, str], set[str]]:
    """How the patterns of a module's names are used; what searches, or is not known, goes through all of a text."""
    found = defaultdict[tuple[str, str], set[str]](set)
    for path, node in nodes(*PACKAGES):
        if isinstance(node, ast.Attribute) and (written := dotted(node.value)):
            owner, _, name = written.rpartition(".")
            found["" if owner else _module(path), name].add(node.attr if node.attr in _ANCHORED else "finditer")
    return found


def _names() -> dict[tuple[Any, int], set[tuple[str, str]]]:
    """The modules that have a pattern, each with its name there."""
    found = defaultdict[tuple[Any, int], set[tuple[str, str]]](set)
    for module, each in list(sys.modules.items()):
        if module.partition(".")[0] in PACKAGES:
            for name, value in list(vars(each).items()):
                if isinstance(value, re.Pattern):
                    found[value.pattern, value.flags].add((module, name))
    return found


def _module(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def _import(path: str) -> None:
    name = _module(path)
    if not name.endswith(("__main__", "sandbox.child")):
        importlib.import_module(name)


def _literal(node: ast.AST) -> Iterator[re.Pattern[str]]:
    if isinstance(node, ast.Call) and dotted(node.func) in _FUNCTIONS and node.args:
        pattern = node.args[0]
        if isinstance(pattern, ast.Constant) and isinstance(pattern.value, str):
            yield re.compile(pattern.value, _flags(node))


def _flags(call: ast.Call) -> int:
    named = [
        dotted(each) for argument in [*call.args, *(k.value for k in call.keywords)] for each in ast.walk(argument)
    ]
    return sum({getattr(re, name.removeprefix("re.")) for name in named if re.fullmatch(r"re\.[A-Z]+", name)})


def attacks(pattern: re.Pattern[str]) -> Iterator[Attack]:
    """Texts that a pattern may have to go through again and again."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    pumps = dict.fromkeys([*_pumped("", tree), *(("", pump) for pump in _ANYWHERE)])
    for before, pump in pumps:
        for after in _NOWHERE:
            yield Attack(before, pump, after)


def _pumped(before: str, tree: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """For each repetition what leads to it and what it repeats."""
    for token, value in tree:
        for inner in _inner(token, value):
            yield from _pumped(before, inner)
        if token in _REPEATS and value[1] > _MANY:
            for sample in islice(_samples(value[2]), _MANY):
                yield before, sample
        before += next(_samples([(token, value)]), "")


def _inner(token: Any, value: Any) -> list[Any]:
    if token in _REPEATS:
        return [value[2]]
    if token is tokens.SUBPATTERN:
        return [value[3]]
    if token is tokens.BRANCH:
        return value[1]
    if token is tokens.ATOMIC_GROUP:
        return [value]
    if token in (tokens.ASSERT, tokens.ASSERT_NOT):
        return [value[1]]
    return []


def _samples(tree: Sequence[Any]) -> Iterator[str]:
    """Some texts that a part of a pattern fits, the shortest of each kind."""
    if not tree:
        yield ""
        return
    (token, value), *rest = tree
    for head in islice(_of_token(token, value), _MANY):
        for tail in islice(_samples(rest), 2):
            yield head + tail


def _of_token(token: Any, value: Any) -> Iterator[str]:
    if token is tokens.LITERAL:
        yield chr(value)
    elif token in (tokens.NOT_LITERAL, tokens.ANY):
        yield "b" if value == ord("a") else "a"
    elif token is tokens.IN:
        yield from _of_class(value)
    elif token in (tokens.ASSERT, tokens.ASSERT_NOT) or not (inner := _inner(token, value)):
        yield ""
    else:
        times = max(1, value[0]) if token in _REPEATS else 1
        yield from (sample * times for each in inner for sample in _samples(each))


def _of_class(members: Sequence[Any]) -> Iterator[str]:
    if members[0][0] is tokens.NEGATE:
        compiled = re.compile(f"[^{''.join(_spelled(*each) for each in members[1:])}]")
        yield from (each for each in ("a", " ", "1", "-", "\n", "中") if compiled.match(each))
        return
    for token, value in members:
        if token is tokens.LITERAL:
            yield chr(value)
        elif token is tokens.RANGE:
            yield chr(value[0])
        else:
            yield _OF_CATEGORY[str(value)]


def _spelled(token: Any, value: Any) -> str:
    if token is tokens.LITERAL:
        return re.escape(chr(value))
    if token is tokens.RANGE:
        return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
    name = str(value).removeprefix("CATEGORY_")
    letter = name.removeprefix("NOT_")[0].lower()
    return "\\" + (letter.upper() if name.startswith("NOT_") else letter)


def is_slow(found: Found, attack: Attack) -> bool:
    """Whether the time that the pattern takes grows faster than the text, or is more than it may be."""
    text = attack.text(LENGTH)
    started_s = time.perf_counter()
    signal.setitimer(signal.ITIMER_PROF, CPU_S)
    try:
        _search(found, text)
    except TooSlow:
        return True
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return time.perf_counter() - started_s > _NOTICED_S and _grows(found, attack)


def _grows(found: Found, attack: Attack) -> bool:
    """Whether even the quickest of some tries takes far longer on a text that is some times longer."""
    short, long = attack.text(LENGTH), attack.text(_TIMES_LONGER * LENGTH)
    short_s = min(_cpu_s(found, short) for _ in range(5))
    return all(_cpu_s(found, long) > max(_LONGER_NOTICED_S, _GROWTH_MAX * short_s) for _ in range(3))


def _cpu_s(found: Found, text: str) -> float:
    # Timers of CPU time make Linux count that of a process in steps of 4 ms, but not that of a thread.
    started_s = time.thread_time()
    _search(found, text)
    return time.thread_time() - started_s


def _search(found: Found, text: str) -> None:
    for method in found.methods:
        result = getattr(found.pattern, method)(text)
        if method == "finditer":
            deque(result, maxlen=0)


def _give_up(*_: object) -> None:
    raise TooSlow


def main() -> None:
    """Go through all patterns, or those that are named."""
    signal.signal(signal.SIGPROF, _give_up)
    sys.path.insert(0, str(ROOT))
    given = sys.argv[1:]
    patterns = [Found("given", re.compile(each)) for each in given] if given else collect()
    for each in patterns:
        slow = next((attack for attack in attacks(each.pattern) if is_slow(each, attack)), None)
        if slow is not None:
            told = {"module": each.module, "pattern": each.pattern.pattern[:300], **asdict(slow)}
            sys.stdout.write(json.dumps(told, ensure_ascii=False) + "\n")
    sys.stderr.write(f"{len(patterns)} patterns\n")


if __name__ == "__main__":
    main()
