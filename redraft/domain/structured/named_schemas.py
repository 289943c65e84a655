"""Named structures of answers: their JSON Schemas, and the prose of an answer, from which citations are read."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from redraft.domain.structured.answers import Mismatch, read_answer

StructureName = Literal["answer_with_sources", "comparison"]
Structure = StructureName | Literal["json"]
"""`json` belongs to the output format of that name: an answer and the numbers of its sources."""


def structure_schema(structure: Structure, sources: int) -> dict[str, Any]:
    """Return the JSON Schema of an answer with this number of sources."""
    # Without sources, the range would be empty, and `maxItems` already allows no number
    number = {"type": "integer", "minimum": 1, "maximum": sources} if sources else {"type": "integer"}
    numbers = {**_list(number), "maxItems": sources, "description": "Numbers of the sources"}
    if structure == "json":
        return _object({"answer": _text("The answer"), "sources": numbers})
    if structure == "answer_with_sources":
        return _object(
            {
                "answer": _text("The answer"),
                "confidence": {
                    "type": "number",
                    "minimum": 0,
                    "maximum": 1,
                    "description": "The confidence in the answer",
                },
                "sources_used": numbers,
                "key_facts": _list(_text("One fact that the answer rests on")),
                "limitations": {
                    "anyOf": [
                        _text("A question that the sources leave open"),
                        {"type": "null"},
                        _list(_text("One question that they leave open")),
                    ]
                },
            },
            optional=("limitations",),
        )
    points = _list(
        {
            "anyOf": [
                _text("One statement, with its citation markers"),
                _object({"point": _text("One statement"), "sources": numbers}),
            ]
        }
    )
    return _object(
        {
            "similarities": points,
            "differences": points,
            "contradictions": points,
            "conclusion": _text("The conclusion"),
        }
    )


def prose_of(structure: Structure, answer: str, sources: int) -> str | None:
    """Return the prose of a structured answer with citation markers, or None if the answer has another structure.

    The source numbers of the answer become markers: those of a point after the point, all others as a reference list.
    """
    read = read_answer(answer, structure_schema(structure, sources))
    if isinstance(read, Mismatch):
        return None
    value: Mapping[str, Any] = read.value
    if structure == "comparison":
        points = (
            f"- {point}" if isinstance(point, str) else f"- {point['point']}{_markers(point['sources'])}"
            for name in ("similarities", "differences", "contradictions")
            for point in cast("Iterable[str | Mapping[str, Any]]", value[name])
        )
        return "\n".join((*points, "", value["conclusion"])).strip()
    numbers = value["sources" if structure == "json" else "sources_used"]
    listed = "\n".join(("", "", "Sources:", *(f"[Source {number}]" for number in dict.fromkeys(numbers))))
    facts = "".join(f"\n- {fact}" for fact in value.get("key_facts") or ())
    return f"{value['answer']}{facts and chr(10)}{facts}{listed if numbers else ''}"


def confidence_of(structure: Structure, answer: str, sources: int) -> float | None:
    """Return the confidence that a structured answer states."""
    if structure != "answer_with_sources":
        return None
    read = read_answer(answer, structure_schema(structure, sources))
    return None if isinstance(read, Mismatch) else float(read.value["confidence"])


def _markers(numbers: Iterable[int]) -> str:
    listed = ", ".join(str(number) for number in numbers)
    return f" [Source {listed}]" if listed else ""


def _list(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": dict(items)}


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _object(properties: Mapping[str, Any], optional: Sequence[str] = ()) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }
