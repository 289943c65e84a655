"""What a judge is shown of a job: the values of a profile's templates, the untrusted ones framed."""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from redraft.domain.requests import AnyRequest, Source
from redraft.domain.rubrics import SCALE_TOP, Criterion
from redraft.domain.texts import defuse, frame, preview
from redraft.domain.views import visible, without_media

ALWAYS = ("answer", "complaint", "frame_start", "frame_end", "nonce")
RUBRIC_ONLY = ("criteria",)
TAGS = ("answer", "source-#", "user-turn-#", "assistant-turn-#", "known-answer")
_ANCHORS = {"0": "absent", str(SCALE_TOP): "fully"}


@dataclass(frozen=True, slots=True)
class CriterionView:
    """What a judge is told of a criterion: not its weight, nor whether it is required.

    Attributes:
        anchors: for a scale, levels with their meaning, from the lowest on.
    """

    id: str
    text: str
    is_scale: bool
    anchors: tuple[tuple[str, str], ...]


def criterion_view(criterion: Criterion) -> CriterionView:
    is_scale = criterion.kind == "scale"
    told = {str(level): words for level, words in (criterion.anchors or _ANCHORS).items()} if is_scale else {}
    return CriterionView(criterion.id, criterion.text, is_scale, tuple(sorted(told.items())))


@dataclass(frozen=True, slots=True)
class Sights:
    """How much of a job a judge is shown."""

    sees: Collection[str]
    source_chars: int | None
    media: bool

    def values(
        self, request: AnyRequest, answer: str, criteria: Sequence[Criterion], complaint: str | None
    ) -> dict[str, Any]:
        """The values for the templates; whoever is to be judged has no say outside of its frame."""
        nonce = nonce_of(request, answer)
        framed = _Framer(nonce, media=self.media)
        shown = framed.of(answer, "answer")
        views = {
            "instruct": lambda: framed.plain(request.instruct),
            "resp_format": lambda: request.resp_format,
            "eval_crit": lambda: request.eval_crit,
            "conversation": lambda: _turns(framed, request),
            "sources": lambda: framed_sources(request.sources, framed, self.source_chars),
            "reference": lambda: framed.of(request.reference, "known-answer") if request.reference else None,
        }
        values = {name: view() for name, view in views.items() if name in self.sees}
        values |= {
            "answer": shown,
            "complaint": defuse(visible(complaint), nonce, TAGS) if complaint else None,
            "frame_start": f'<answer id="{nonce}">',
            "frame_end": f'</answer id="{nonce}">',
            "nonce": nonce,
        }
        return values | ({"criteria": tuple(map(criterion_view, criteria))} if criteria else {})


@dataclass(frozen=True, slots=True)
class _Framer:
    nonce: str
    media: bool = True

    def plain(self, text: str) -> str:
        return text if self.media else without_media(text)

    def of(self, text: str, tag: str) -> str:
        return frame(visible(self.plain(text)), tag, self.nonce, TAGS)


def framer(nonce: str) -> _Framer:
    return _Framer(nonce)


def _turns(framed: _Framer, request: AnyRequest) -> tuple[tuple[str, str], ...]:
    return tuple(
        (framed.of(user, f"user-turn-{number}"), framed.of(assistant, f"assistant-turn-{number}"))
        for number, (user, assistant) in enumerate(request.conversation, 1)
    )


def framed_sources(sources: Sequence[Source], framed: _Framer, chars: int | None = None) -> tuple[str, ...]:
    """Each source in a frame of its own, `source-1` first; what is known of it stands inside, for it is its too."""
    return tuple(framed.of(_source_text(source, chars), f"source-{number}") for number, source in enumerate(sources, 1))


def _source_text(source: Source, chars: int | None) -> str:
    content = source.content if chars is None else preview(visible(source.content), chars)
    about = [f"Title: {source.title}"] if source.title else []
    about += [f"{name}: {value}" for name, value in source.metadata.items()]
    return "\n".join([*about, "", content] if about else [content])


def nonce_of(request: AnyRequest, answer: str) -> str:
    """No text can hold its own hash, so none can close its frame; the same call keeps the same prompt."""
    sources = [[source.title, source.metadata, source.content] for source in request.sources]
    whole = [request.instruct, answer, request.conversation, request.reference, sources]
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:16]
