"""Measures the tokens of grounded prompts (prompts with sources) beyond the task and the texts of the sources.

Run it with `python -m benchmarks.prompt_overhead`. The server of the bundled model counts the tokens. Each prompt is
compared with a prompt that has only the task and the texts. A comparison of prompts with one source and with five
sources shows which tokens occur once, and which occur for each source.
"""

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from redraft.domain.calls.conversation import Prompt
from redraft.domain.calls.model_names import ModelRef
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.domain.structured.named_schemas import structure_schema
from redraft.prompts.render import generation_prompt
from redraft.providers.local.provider import LocalProvider
from redraft.providers.shared.protocol import Chat, UnusableReply
from redraft.providers.shared.transport import CALLS_LOOP
from redraft.settings import Settings

_MODEL = ModelRef("local", "smollm2-135m")
_TIMEOUT_S = 120
_FEW, _MORE = 1, 5
_TASK = {"instruct": "How long does the crossing take?", "eval_crit": "Complete."}
_CONTENT = "The ferry leaves every day at 7:40 and at 16:20. The crossing takes 55 minutes."

_KINDS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    *((f"mode {name}", {"mode": name}) for name in ("simple", "grounded", "analytical", "conversational")),
    *((f"simple, format {name}", {"output_format": name}) for name in ("markdown", "bullets", "json")),
    *((f"simple, style {name}", {"citation_style": name}) for name in ("footnote", "endnote")),
    ("simple, include_citations false", {"include_citations": False}),
    ("simple, require_grounding false", {"require_grounding": False}),
    *(
        (f"simple, template {name}", {"template": name})
        for name in ("grounded_qa", "analytical_synthesis", "comparison", "summarization")
    ),
)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        provider = LocalProvider(Settings(data_dir=Path(folder)))
        try:
            show(provider)
        finally:
            CALLS_LOOP.run(provider.close())


def show(provider: LocalProvider) -> None:
    bare = {count: _tokens(provider, _bare(count)) for count in (_FEW, _MORE)}
    print("| prompt | tokens once | tokens for each source |\n|---|---|---|")
    for name, options in _KINDS:
        over = [_tokens(provider, _grounded(count, options)) - bare[count] for count in (_FEW, _MORE)]
        each = (over[1] - over[0]) / (_MORE - _FEW)
        print(f"| {name} | {over[0] - each * _FEW:.0f} | {each:.1f} |")
    nothing = generation_prompt(GenerateAnswer.model_validate(_TASK), None)
    none = generation_prompt(GenerateAnswer.model_validate({**_TASK, "grounding": {}}), None)
    print(f"| no sources | {_tokens(provider, none) - _tokens(provider, nothing)} | |")


def _bare(count: int) -> Prompt:
    words = "\n".join((_TASK["instruct"], "", *_contents(count)))
    return generation_prompt(GenerateAnswer.model_validate({**_TASK, "instruct": words}), None)


def _grounded(count: int, options: Mapping[str, Any]) -> Prompt:
    sources = [{"content": content} for content in _contents(count)]
    request = GenerateAnswer.model_validate({**_TASK, "sources": sources, "grounding": dict(options)})
    schema = structure_schema("json", count) if options.get("output_format") == "json" else None
    return generation_prompt(request, None, schema)


def _contents(count: int) -> Iterable[str]:
    return [_CONTENT] * count


def _tokens(provider: LocalProvider, prompt: Prompt) -> int:
    body = provider.wire_body(Chat(_MODEL, prompt.system, prompt.messages, max_output_tokens=1, temperature=0))
    try:
        usage = CALLS_LOOP.run(provider.send(body, timeout_s=_TIMEOUT_S)).usage
    except UnusableReply as cut:
        usage = cut.usage
    return usage.input_tokens or 0


if __name__ == "__main__":
    main()
