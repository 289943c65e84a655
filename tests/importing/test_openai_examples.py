"""Evals with the shapes of OpenAI's own examples; the texts are ours.

The shapes are those of the notebooks `examples/evaluation/…` of github.com/openai/openai-cookbook, and of the guide to
graders, that the tests name.
"""

from pathlib import Path
from typing import Any

from redraft.domain.jobs.requests import EvaluateAnswer, GenerateAnswer
from redraft.importing.openai_evals import Options
from tests.importing.importing import SAMPLE, changed, checks, criteria, items, left_out, openai, verdict


def eval_of(*graders: Any, **config: Any) -> dict[str, Any]:
    return {
        "id": "eval_1",
        "object": "eval",
        "name": "Our eval",
        "data_source_config": {
            "type": "custom",
            "item_schema": {"type": "object"},
            "include_sample_schema": True,
            **config,
        },
        "testing_criteria": list(graders),
    }


def run_of(
    content: list[Any] | None, kind: str = "completions", name: str = "gpt-4.1", **source: Any
) -> dict[str, Any]:
    data = {"type": "file_content", "content": [{"item": item} for item in content]} if content is not None else None
    return {
        "name": name,
        "eval_id": "eval_1",
        "data_source": {"type": kind, **({"source": data} if data else {}), **source},
    }


def message(role: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": {"type": "input_text", "text": text}}


def template(*messages: Any) -> dict[str, Any]:
    return {"type": "template", "template": list(messages)}


def labels(name: str, prompt: str, passing: list[str], others: list[str], model: str = "o3") -> dict[str, Any]:
    return {
        "type": "label_model",
        "name": name,
        "model": model,
        "input": [{"role": "developer", "content": "Label the text."}, {"role": "user", "content": prompt}],
        "passing_labels": passing,
        "labels": [*passing, *others],
    }


SCHEMA = {"type": "object", "properties": {"names": {"type": "array"}}, "required": ["names"]}
CHECK = {"type": "string_check", "name": "Same", "input": SAMPLE, "reference": "{{item.label}}", "operation": "eq"}


def test_structured_outputs(tmp_path: Path):
    """A score from 1 to 7 of an answer with a schema; one run of each API."""
    grader = {
        "type": "score_model",
        "name": "General Evaluator",
        "model": "o3",
        "input": [
            {"role": "system", "content": "Score the list from 1 to 7."},
            {
                "role": "user",
                "content": "<Text>\n{{item.input}}\n</Text>\n<List>\n{{sample.output_json.names}}\n</List>",
            },
        ],
        "range": [1, 7],
        "pass_threshold": 5.5,
    }
    messages = template(message("system", "You help."), message("user", "List the names in {{item.input}}"))
    sampling = {"seed": 42, "temperature": 0.7, "max_completions_tokens": 10000, "top_p": 0.9}
    wanted = {"type": "json_schema", "name": "names", "schema": SCHEMA, "strict": True}
    rows = [{"input": "Ann met Bob."}]
    chat = {**sampling, "response_format": {"type": "json_schema", "json_schema": wanted}}
    responses = {**sampling, "text": {"format": wanted}}
    done = openai(
        tmp_path,
        eval_of(grader),
        run_of(rows, input_messages=messages, model="gpt-4.1", sampling_params=chat),
        run_of(rows, "responses", "mini", input_messages=messages, model="gpt-4.1-mini", sampling_params=responses),
    )
    assert left_out(done) == []
    assert changed(done) == ["General Evaluator: the evaluator chooses one of six levels instead of any number"]
    assert done.runs == [("our-eval-gpt-4-1", "our-eval-gpt-4-1"), ("our-eval-mini", "our-eval-mini")]
    (item,) = items(done, "our-eval-mini")
    request = item.request
    assert isinstance(request, GenerateAnswer)
    assert (request.instruct, request.system_instructions) == ("List the names in Ann met Bob.", "You help.")
    assert (request.model, request.evaluator_model, request.answer_schema) == (
        "openai:gpt-4.1-mini",
        "openai:o3",
        SCHEMA,
    )
    assert request.sampling.model_dump(exclude_none=True) == {
        "seed": 42,
        "temperature": 0.7,
        "top_p": 0.9,
        "max_output_tokens": 10000,
    }
    (criterion,) = request.rubric or []
    assert (criterion.kind, criterion.required, request.score_threshold) == ("scale", True, 0)
    assert criterion.anchors == {
        "0": "a score of 1",
        "3": "nearly a score of 5.5",
        "4": "a score of 5.5",
        "5": "a score of 7",
    }
    assert "Ann met Bob." in criterion.text
    assert "[`names` of the answer]" in criterion.text


def test_bulk_experimentation(tmp_path: Path):
    """Six labels, of which one passes; a run for each prompt and model."""
    grader = labels(
        "Summary",
        "<all>{{item.notes}}</all>\n<summary>{{sample.output_text}}</summary>",
        ["concise"],
        ["verbose", "other"],
    )
    runs = [
        run_of(
            [{"notes": "- a\n- b"}, {"notes": "- c"}],
            name=f"bulk_{prompt}_{model}",
            model=model,
            input_messages=template(
                {"role": "developer", "content": prompt}, {"role": "user", "content": "{{item.notes}}"}
            ),
        )
        for prompt in ("basic", "more")
        for model in ("gpt-a", "gpt-b")
    ]
    done = openai(tmp_path, eval_of(grader), *runs)
    assert left_out(done) == changed(done) == []
    assert len(done.runs) == 4
    (found,) = criteria(done, "our-eval-bulk-basic-gpt-a").values()
    assert found["kind"] == "binary"
    assert found["text"].startswith(
        "The answer gets the label 'concise' by these instructions, which give one of these labels:"
    )
    assert "<all>- a\n- b</all>\n<summary>[the answer]</summary>" in found["text"]
    assert [each.custom_id for each in items(done, "our-eval-bulk-more-gpt-b")] == ["item-1", "item-2"]


def test_completion_monitoring(tmp_path: Path):
    """Stored completions stay at OpenAI until they are exported, here as items with their samples."""
    grader = labels(
        "Push", "Notes: {{item.input}}\nSummary: {{sample.output_text}}", ["correct"], ["incorrect"], "o3-mini"
    )
    config = {"type": "stored_completions", "metadata": {"usecase": "push"}}
    stored = {"type": "completions", "source": {"type": "stored_completions", "metadata": {"prompt_version": "v1"}}}
    again = {**stored, "model": "gpt-4o", "input_messages": {"type": "item_reference", "item_reference": "item.input"}}
    whole = eval_of(grader, **config)
    runs = [{"name": "v1-run", "data_source": stored}, {"name": "again", "data_source": again}]
    assert [each.split(":")[0] for each in left_out(openai(tmp_path / "a", whole, *runs))] == [
        "run v1-run",
        "run again",
        "the items",
    ]
    exported = [
        {
            "item": {
                "input": [{"role": "developer", "content": "Sum up."}, {"role": "user", "content": f"- news {n}"}]
            },
            "sample": {
                "choices": [{"message": {"role": "assistant", "content": f"News {n}!"}}],
                "model": "gpt-4o-mini",
            },
        }
        for n in (1, 2)
    ]
    done = openai(tmp_path / "b", whole, *runs, exported)
    assert left_out(done) == ["source.metadata: all items that are given are used"]
    assert changed(done) == [
        "the system message: it is dropped, because the row has an answer, so no generator is called"
    ]
    judged, new = items(done, "our-eval-v1-run"), items(done, "our-eval-again")
    assert isinstance(judged[0].request, EvaluateAnswer)
    assert (judged[0].request.instruct, judged[0].request.answer) == ("- news 1", "News 1!")
    assert isinstance(new[1].request, GenerateAnswer)
    assert (new[1].request.instruct, new[1].request.model) == ("- news 2", "openai:gpt-4o")
    assert new[1].request.system_instructions == "Sum up."


def test_web_search(tmp_path: Path):
    """Tools of the model are not carried, and are listed."""
    prompt = "<Query>{{item.query}}</Query><Result>{{sample.output_text}}</Result><Truth>{{item.answer}}</Truth>"
    run = run_of(
        [{"query": "the tallest mountain", "answer": "everest"}],
        "responses",
        input_messages=template(message("system", "You search."), message("user", "Find {{item.query}}")),
        model="gpt-4.1",
        sampling_params={"seed": 42, "tools": [{"type": "web_search_preview"}]},
    )
    done = openai(tmp_path, eval_of(labels("Search", prompt, ["pass"], ["fail"])), run)
    assert left_out(done) == ["parameter tools: Redraft has no such parameter"]
    assert "<Truth>everest</Truth>" in next(iter(criteria(done).values()))["text"]


def test_tools(tmp_path: Path):
    """A grader of the tools that the model called has no counterpart, so that no criterion remains."""
    grader = {
        "type": "score_model",
        "name": "Tools",
        "model": "o3",
        "input": [{"role": "user", "content": "{{item.input}} {{sample.output_tools[0].function.arguments.symbols}}"}],
        "range": [1, 7],
        "pass_threshold": 5.0,
    }
    done = openai(tmp_path, eval_of(grader), run_of([{"input": "x"}], input_messages=template(message("user", "a"))))
    assert "rubric" not in done.datasets["our-eval-gpt-4-1"][0]
    (left,) = left_out(done)
    assert left.startswith("score_model grader Tools: its prompt does not contain the answer")


def test_mcp(tmp_path: Path):
    """A grader in Python is not executed. The others remain."""
    python = {
        "type": "python",
        "name": "Used MCP",
        "image_tag": "x",
        "pass_threshold": 1.0,
        "source": "def grade(): ...",
    }
    grader = labels("General", "{{item.query}} {{sample.output_text}} {{item.answer}}", ["pass"], ["fail"])
    rows = [{"query": "What is it?", "answer": "A tool"}]
    done = openai(
        tmp_path, eval_of(grader, python), run_of(rows, input_messages=template(message("user", "{{item.query}}")))
    )
    assert list(criteria(done)) == ["general"]
    assert left_out(done) == [
        "Used MCP: image_tag: Redraft has no such field",
        "Used MCP: source: Redraft has no such field",
        "python grader Used MCP: a grader in Python is code, which is not carried",
    ]


def test_responses_of_the_logs(tmp_path: Path):
    """The notebook's template lacks a brace. It is listed, not taken for a text."""
    grader = {
        "type": "score_model",
        "name": "General",
        "model": "o3",
        "input": [{"role": "user", "content": "**Input**\n{{item.input}}\n**Response**\n{{sample.output_text}\n"}],
        "pass_threshold": 0.5,
    }
    rows = [{"item": {"input": "What does it do?"}, "sample": {"output_text": "It adds."}}]
    done = openai(tmp_path, eval_of(grader, type="logs"), rows)
    assert left_out(done) == [
        "score_model grader General: the template has more than plain variables: {{sample.output_text}"
    ]


def test_images(tmp_path: Path):
    """Images within messages are not carried, neither in a grader nor in a task."""
    grader = {
        "type": "score_model",
        "name": "Image",
        "model": "o4-mini",
        "input": [
            {"role": "system", "content": "Judge it."},
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Prompt: {{ item.prompt }}."},
                    {"type": "input_image", "image_url": "{{ item.url }}", "detail": "auto"},
                    {"type": "input_text", "text": "Response: {{ sample.output_text }}."},
                ],
            },
        ],
        "pass_threshold": 0.9,
        "range": [0, 1],
    }
    image = {"role": "user", "type": "message", "content": {"type": "input_image", "image_url": "{{ item.url }}"}}
    rows = [{"prompt": "What is it?", "url": "https://example.org/a.png"}]
    done = openai(
        tmp_path, eval_of(grader), run_of(rows, "responses", input_messages=template(message("user", "a"), image))
    )
    assert done.datasets == {}
    assert left_out(done)[0] == "the item: a message has a part that is no text (input_image)"


def test_audio(tmp_path: Path):
    """The items are in a file that was uploaded. A label is searched for in the answer."""
    grader = {**CHECK, "operation": "like", "reference": "{{item.official_answer}}"}
    run = {
        "name": "Audio run",
        "data_source": {
            "type": "completions",
            "source": {"type": "file_id", "id": "file-1"},
            "model": "gpt-4o-audio-preview",
            "input_messages": template({"role": "user", "content": "Question {{ item.id }} of {{item.category}}"}),
        },
    }
    rows = [{"item": {"id": 0, "category": "logic", "official_answer": "invalid", "audio_base64": "UklG" * 200}}]
    rows[0]["item"] |= {f"n{number}": number for number in range(15)}
    done = openai(tmp_path, eval_of(grader), run, rows)
    (item,) = items(done)
    assert item.request.instruct == "Question 0 of logic"
    assert checks(item) == [{"kind": "contains", "value": "invalid"}]
    assert left_out(done) == [
        "item.audio_base64: no template uses it, and it is too long for metadata",
        "item.n14: no template uses it, and the metadata is full",
    ]


def test_output_items(tmp_path: Path):
    """The results of a run, as a page of the API's list: answers and OpenAI's verdicts."""
    page = {
        "object": "list",
        "data": [
            {
                "id": f"outputitem_{n}",
                "object": "eval.run.output_item",
                "run_id": "evalrun_1",
                "datasource_item_id": n,
                "datasource_item": {"prompt": "2 + 2", "label": "4", "topic": "sums"},
                "results": [{"name": "Same", "passed": n == 0, "score": 1.0 - n}],
                "sample": {
                    "input": [{"role": "user", "content": "How much is 2 + 2?"}],
                    "output": [{"role": "assistant", "content": answer}],
                    "model": "gpt-4o-mini",
                    "finish_reason": "stop",
                },
                "status": "pass",
            }
            for n, answer in enumerate(["4", "5"])
        ],
        "has_more": False,
    }
    done = openai(tmp_path, eval_of(CHECK), page)
    found = items(done, "our-eval-results")
    assert left_out(done) == []
    assert [each.custom_id for each in found] == ["item-0", "item-1"]
    assert [verdict(each, each.request.answer) for each in found if isinstance(each.request, EvaluateAnswer)] == [
        True,
        False,
    ]
    assert found[1].request.metadata == {"topic": "sums", "openai_passed": "false"}
    assert found[0].request.instruct == "How much is 2 + 2?"


def test_multi_grader_of_the_guide(tmp_path: Path):
    """The guide's multi grader: two graders, and a formula of their scores."""
    grader = {
        "type": "multi",
        "name": "example",
        "graders": {
            "name_score": {"type": "string_check", "name": "Name", "input": "{{sample.output_json.name}}",
                           "reference": "{{item.name}}", "operation": "eq"},
            "text_score": {"type": "text_similarity", "name": "Text", "input": "{{sample.output_text}}",
                           "reference": "{{item.text}}", "evaluation_metric": "fuzzy_match", "pass_threshold": 0.8},
        },
        "calculate_output": "(name_score + 3 * text_score) / 4",
    }  # fmt: skip
    rows = [{"item": {"question": "Who?", "name": "Ann", "text": "It was Ann."}}]
    done = openai(tmp_path, grader, rows)
    assert left_out(done) == []
    assert changed(done) == [
        "Text: the evaluator rates the similarity, which was computed as fuzzy_match",
        "example: it has no pass_threshold: 0.8 is used",
    ]
    found = criteria(done)
    assert [(each["weight"], "required" in each) for each in found.values()] == [(0.25, False), (0.75, False)]
    assert done.datasets["eval"][0]["score_threshold"] == 0.8
    (item,) = items(done)
    assert checks(item)[0]["value"]["properties"] == {"name": {"enum": ["Ann"]}}
    assert set(found["text-score"]["anchors"]) == {"0", "5"}


def test_answers_in_the_items(tmp_path: Path):
    """Data without a sample: an option names the field that is evaluated."""
    rows = [{"item": {"ticket": "It is broken", "response": "Hardware", "label": "Hardware"}}]
    named = Options(answer_at=("item", "response"), task_at=("item", "ticket"))
    done = openai(tmp_path, eval_of({**CHECK, "input": "{{ item.response }}"}), rows, options=named)
    (item,) = items(done)
    assert isinstance(item.request, EvaluateAnswer)
    assert (item.request.instruct, item.request.answer) == ("It is broken", "Hardware")
    assert verdict(item, "Hardware")
    assert left_out(done) == []
