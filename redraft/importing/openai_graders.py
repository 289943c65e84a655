"""Turns the graders of OpenAI's Evals API into criteria."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from redraft.importing.criteria import Part, binary, check, escaped, scale
from redraft.importing.texts import NotCarried, Path, fill, in_words, look_up, paths_in
from redraft.importing.values import Fields, as_list, as_object, is_number, one_or_many

THE_ANSWER = "[the answer]"
_OUTPUT: Path = ("sample", "output_text")
_OUTPUT_JSON: Path = ("sample", "output_json")
_FORMULA_CHARS = 1000


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a data source, whose fields the templates of graders can name.

    Attributes:
        answer_at: the path of the evaluated text.
    """

    fields: Fields
    answer_at: Path = _OUTPUT

    def fill(self, template: Any) -> str:
        """Fill the fields of the item into a template. The answer becomes `[the answer]`. Raises NotCarried."""
        return fill(_template(template), self._value)

    def constant(self, template: Any) -> str:
        """Fill in a template that must not contain the answer. Raises NotCarried."""
        if any(self.is_answer(path) or path[0] == "sample" for path in paths_in(_template(template))):
            raise NotCarried("a check compares the answer with a text that is known before, not with the answer itself")
        return self.fill(template)

    def is_answer(self, path: Path) -> bool:
        return path == self.answer_at

    def _value(self, path: Path, text: str) -> str:
        if self.is_answer(path) or path == _OUTPUT_JSON:
            return THE_ANSWER
        if path[:2] == _OUTPUT_JSON:
            return f"[`{'.'.join(map(str, path[2:]))}` of the answer]"
        if path[0] != "item":
            raise NotCarried(f"there is no {text}")
        value = look_up(self.fields, path[1:])
        if value is None:
            raise NotCarried(f"the item has no {text}")
        return in_words(value)


def parts_of(grader: Fields, item: Item) -> list[Part]:
    """Return the criteria of a grader for one item. Raises NotCarried if the grader cannot be carried over."""
    kind = grader.get("type")
    make = _KINDS.get(kind) if isinstance(kind, str) else None
    if make is None:
        raise NotCarried(_WHY.get(str(kind), "this kind is not known"))
    name = grader.get("name")
    return [Part(name if isinstance(name, str) else kind or "grader", make(grader, item))]


def unknown_fields(grader: Fields) -> list[str]:
    """Return the fields of a grader that have no effect on its criterion."""
    known = {"type", "name", "id", "input", "reference", "operation", "evaluation_metric", "pass_threshold", "model"}
    known |= {"labels", "passing_labels", "range", "sampling_params", "graders", "calculate_output"}
    return sorted(set(grader) - known)


def notes_on(grader: Fields) -> Iterator[str]:
    """Yield how a criterion differs from its grader."""
    kind = grader.get("type")
    if kind == "text_similarity":
        yield f"the evaluator rates the similarity, which was computed as {grader.get('evaluation_metric')}"
    if kind in ("text_similarity", "score_model") and not is_number(grader.get("pass_threshold")):
        yield "it has no pass_threshold: level 4 of 5 passes"
    if kind == "score_model":
        yield "the evaluator chooses one of six levels instead of any number"


def _string_check(grader: Fields, item: Item) -> dict[str, Any]:
    operation, reference = grader.get("operation"), item.constant(grader.get("reference"))
    path = _only_path(grader)
    if path[:2] == _OUTPUT_JSON and len(path) > 2 and operation == "eq":
        return check("json_schema", _schema_at(path[2:], reference))
    if not item.is_answer(path):
        raise NotCarried("its input is not the answer; --answer item.FIELD names the field that is evaluated")
    match operation:
        case "eq":
            return check("equals", reference)
        case "ne" | "neq":
            # There is no check for "not equal", so a pattern forbids an answer that consists of this text
            return check("not_regex", rf"^\s*{escaped(reference)}\s*$")
        case "like":
            return check("contains", reference)
        case "ilike":
            return check("contains", reference, ignore_case=True)
        case _:
            raise NotCarried(f"the operation {operation!r} is not known")


def _only_path(grader: Fields) -> Path:
    """Return the path of the one variable that the input consists of. Raises NotCarried."""
    found: list[Path] = []

    def note(path: Path, _: str) -> str:
        found.append(path)
        return ""

    rest = fill(_template(grader.get("input")), note)
    if rest.strip() or len(found) != 1:
        raise NotCarried("its input is not the answer alone")
    return found[0]


def _schema_at(path: Path, reference: str) -> dict[str, Any]:
    """Return a JSON Schema for answers whose value at the path is this text, or the number or boolean of this text."""
    # The API writes the value into a text before it compares, so the number 3 equals the text "3"
    values: list[Any] = [reference]
    try:
        spelled = ast.literal_eval(reference.capitalize() if reference in ("true", "false") else reference)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        spelled = None
    if isinstance(spelled, int | float):
        values.append(spelled)
    schema: dict[str, Any] = {"enum": values}
    for step in reversed(path):
        if isinstance(step, int):
            raise NotCarried("its input is an entry of a list of the answer")
        schema = {"type": "object", "properties": {step: schema}, "required": [step]}
    return schema


def _text_similarity(grader: Fields, item: Item) -> dict[str, Any]:
    if not item.is_answer(_only_path(grader)):
        raise NotCarried("its input is not the answer; --answer item.FIELD names the field that is evaluated")
    return similar(item.constant(grader.get("reference")), grader.get("pass_threshold"))


def similar(reference: str, threshold: Any) -> dict[str, Any]:
    """Return a scale of the similarity of the answer and a reference. Raises NotCarried."""
    mark = f"a similarity of {threshold:g}, where 1 is the same text" if is_number(threshold) else "mostly the same"
    text = f"The answer says the same as the following reference, in similar words.\n\n{reference}"
    return scale(text, "nothing in common", mark, "the same in content and words")


def _score_model(grader: Fields, item: Item) -> dict[str, Any]:
    low, high = _range_of(grader)
    threshold = grader.get("pass_threshold")
    mark = f"a score of {threshold:g}" if is_number(threshold) else "a good score"
    text = f"The answer gets a high score by these instructions, which score it from {low:g} to {high:g}."
    return scale(f"{text}\n\n{_messages(grader, item)}", f"a score of {low:g}", mark, f"a score of {high:g}")


def _range_of(grader: Fields) -> tuple[float, float]:
    given = as_list(grader.get("range") or [0, 1])
    if len(given) != 2 or not all(map(is_number, given)) or given[0] >= given[1]:
        raise NotCarried("its range is not a pair of a low and a high number")
    return given[0], given[1]


def _label_model(grader: Fields, item: Item) -> dict[str, Any]:
    labels, passing = (_names(grader.get(field)) for field in ("labels", "passing_labels"))
    if not passing or not set(passing) <= set(labels):
        raise NotCarried("its passing_labels are not among its labels")
    one = f"The answer gets the label {' or '.join(map(repr, passing))} by these instructions"
    return binary(f"{one}, which give one of these labels: {', '.join(labels)}.\n\n{_messages(grader, item)}")


def _messages(grader: Fields, item: Item) -> str:
    """Return the prompt of a grader with the fields of an item. Raises NotCarried."""
    texts = [text_of(each) for each in as_list(grader.get("input"))]
    if not any(item.is_answer(path) or path[:2] == _OUTPUT_JSON for text in texts for path in paths_in(text)):
        words = "its prompt does not contain the answer"
        raise NotCarried(f"{words}; --answer item.FIELD names the field that is evaluated")
    return "\n\n".join(item.fill(text).strip() for text in texts)


def text_of(message: Any) -> str:
    """Return the text of a message of OpenAI's APIs. Raises NotCarried if it has images, audio or files."""
    return "\n".join(map(_block, one_or_many(as_object(message).get("content"))))


def _block(block: Any) -> str:
    if isinstance(block, str):
        return block
    fields = as_object(block)
    if fields.get("type") in ("input_text", "output_text", "text") and isinstance(fields.get("text"), str):
        return fields["text"]
    raise NotCarried(f"a message has a part that is no text ({fields.get('type', 'unknown')})")


def multi_parts(grader: Fields, item: Item) -> tuple[list[Part], float]:
    """Return the weighted criteria of a multi grader, and the sum of its weights. Raises NotCarried."""
    graders = graders_of(grader)
    weights = linear_weights(grader.get("calculate_output"))
    unknown = set(weights) - set(graders)
    if unknown:
        raise NotCarried(f"its formula names {', '.join(sorted(unknown))}, which is no grader of it")
    if any(weight < 0 for weight in weights.values()):
        raise NotCarried("its formula has a negative weight")
    if not any(weights.values()):
        raise NotCarried("all weights of its formula are 0")
    # Redraft's criteria score from 0 to 1, so another range would change the weight of a grader
    if any(_range_of(graders[name]) != (0, 1) for name in weights):
        raise NotCarried("a score of its formula is not from 0 to 1")
    parts = [Part(name, part.fields, weights[name]) for name in weights for part in parts_of(graders[name], item)]
    return parts, sum(weights.values())


def graders_of(grader: Fields) -> dict[str, Fields]:
    """Return the graders of a multi grader by name. The API accepts them in several forms."""
    given = grader.get("graders")
    if "type" in as_object(given):
        given = [given]
    named = as_object(given) or {str(as_object(each).get("name")): each for each in as_list(given)}
    return {name: as_object(each) for name, each in named.items()}


def linear_weights(formula: Any) -> dict[str, float]:
    """Return the weight of each name in a weighted sum, such as `0.5 * a + b / 4`. Raises NotCarried.

    The formula is only parsed, never executed.
    """
    if not isinstance(formula, str) or len(formula) > _FORMULA_CHARS:
        raise NotCarried("it has no formula")
    try:
        tree = ast.parse(formula.strip(), mode="eval").body
        terms = _terms(tree)
    except (SyntaxError, RecursionError, ValueError, OverflowError) as error:
        raise NotCarried("its formula cannot be read") from error
    if terms.pop("", 0):
        raise NotCarried("its formula adds a constant")
    if not all(map(is_number, terms.values())):
        raise NotCarried("a weight of its formula is not finite")
    return terms


def _terms(node: ast.expr) -> dict[str, float]:
    """Return the factor of each name. The empty name has the constant part of the sum."""
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return {"": float(number)}
        case ast.Name(id=name):
            return {name: 1.0}
        case ast.BinOp(left, operator, right):
            return _combined(_terms(left), operator, _terms(right))
        case _:
            raise NotCarried("its formula is no weighted sum of its graders")


def _combined(left: dict[str, float], operator: ast.operator, right: dict[str, float]) -> dict[str, float]:
    # A constant factor may stand on either side
    if isinstance(operator, ast.Mult) and set(left) == {""}:
        left, right = right, left
    if isinstance(operator, ast.Add):
        return {name: left.get(name, 0) + right.get(name, 0) for name in left | right}
    if set(right) == {""}:
        (factor,) = right.values()
        if isinstance(operator, ast.Mult):
            return {name: each * factor for name, each in left.items()}
        if isinstance(operator, ast.Div) and factor:
            return {name: each / factor for name, each in left.items()}
    raise NotCarried("its formula is no weighted sum of its graders")


def _names(value: Any) -> list[str]:
    return [each for each in as_list(value) if isinstance(each, str)]


def _template(value: Any) -> str:
    if not isinstance(value, str):
        raise NotCarried("a template of it is no text")
    return value


_WHY = {
    "python": "a grader in Python is code, which is not carried",
    "multi": "a multi grader beside other graders has a score of its own; import it alone",
}
_KINDS: dict[str, Callable[[Fields, Item], dict[str, Any]]] = {
    "string_check": _string_check,
    "text_similarity": _text_similarity,
    "score_model": _score_model,
    "label_model": _label_model,
}
