"""`python -m tests.rules.patterns`: each regular expression of our own on texts that are made to keep it busy.

For each repetition in a pattern there is a text that leads to it, then what it repeats, many times, then what fits
nowhere: so a pattern that tries again and again is found by its own shape. What takes too long is written to standard
output, a line each.
"""

import ast
import importlib
import json
import re
import signal
import sys
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from re import _constants as tokens  # pyright: ignore[reportAttributeAccessIssue]
from re import _parser as parser  # pyright: ignore[reportAttributeAccessIssue]
from typing import Any

from tests.rules.sources import PACKAGES, ROOT, dotted, nodes

LENGTH = 1_000
CPU_S = 0.25
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
_NOWHERE = ("\x00", "", "!\n")


@dataclass(frozen=True)
class Found:
    """A pattern, where it stands, and the methods by which it is used."""

    module: str
    pattern: re.Pattern[str]
    methods: frozenset[str] = frozenset({"finditer"})


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
    for path, node in nodes(*PACKAGES):
        if isinstance(node, ast.Module):
            _import(path)
    re.compile = compile_one
    for path, node in nodes(*PACKAGES):
        for pattern in _literal(node):
            found.setdefault((pattern.pattern, pattern.flags), Found(path, pattern))
    used, names = _methods(), _names()
    return [
        replace(
            each, methods=frozenset[str]().union(*(used.get(name, ()) for name in names.get(key, ()))) or each.methods
        )
        for key, each in found.items()
        if isinstance(each.pattern.pattern, str)
    ]


def _methods() -> dict[str, set[str]]:
    """How the patterns of a name are used, wherever that is; what searches, or is not known, goes through all."""
    found = defaultdict[str, set[str]](set)
    for _, node in nodes(*PACKAGES):
        if isinstance(node, ast.Attribute) and (name := dotted(node.value).rpartition(".")[2]):
            found[name].add(node.attr if node.attr in _ANCHORED else "finditer")
    return found


def _names() -> dict[tuple[Any, int], set[str]]:
    """The names that patterns have in our modules."""
    found = defaultdict[tuple[Any, int], set[str]](set)
    for module in [each for name, each in sys.modules.items() if name.partition(".")[0] in PACKAGES]:
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern):
                found[value.pattern, value.flags].add(name)
    return found


def _import(path: str) -> None:
    name = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
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


def attacks(pattern: re.Pattern[str]) -> Iterator[str]:
    """Texts that a pattern may have to go through again and again."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    pumps = dict.fromkeys([*_pumped("", tree), *(("", pump) for pump in _ANYWHERE)])
    for before, pump in pumps:
        for after in _NOWHERE:
            yield before + pump * (LENGTH // max(1, len(pump))) + after


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


def is_slow(found: Found, text: str) -> bool:
    """Whether to go through the text with the pattern takes more CPU time than it may."""
    signal.setitimer(signal.ITIMER_PROF, CPU_S)
    try:
        for method in found.methods:
            result = getattr(found.pattern, method)(text)
            if method == "finditer":
                deque(result, maxlen=0)
    except TooSlow:
        return True
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return False


def _give_up(*_: object) -> None:
    raise TooSlow


def main() -> None:
    """Go through all patterns, or those that are named."""
    signal.signal(signal.SIGPROF, _give_up)
    sys.path.insert(0, str(ROOT))
    given = sys.argv[1:]
    patterns = [Found("given", re.compile(each)) for each in given] if given else collect()
    for each in patterns:
        slow = next((text for text in attacks(each.pattern) if is_slow(each, text)), None)
        if slow is not None:
            told = {"module": each.module, "pattern": each.pattern.pattern[:300], "text": slow[:80], "end": slow[-5:]}
            sys.stdout.write(json.dumps(told, ensure_ascii=False) + "\n")
    sys.stderr.write(f"{len(patterns)} patterns\n")


if __name__ == "__main__":
    main()
