"""Configurations with the shapes of promptfoo's own examples; the texts are ours.

The shapes are those of the folders `examples/…` of github.com/promptfoo/promptfoo that the tests name.
"""

from pathlib import Path

from redraft.domain.jobs.requests import EvaluateAnswer, GenerateAnswer
from tests.importing.importing import changed, checks, criteria, items, left_out, promptfoo, verdict


def test_getting_started(tmp_path: Path):
    """Two prompts, two models of OpenAI, one assertion per test."""
    config = """
# yaml-language-server: $schema=https://promptfoo.dev/config-schema.json
description: 'First steps'
prompts:
  - 'Put this into {{language}}: {{input}}'
  - 'Say in {{language}}: {{input}}'
providers:
  - openai:gpt-4.1
  - openai:o4-mini
tests:
  - vars: {language: French, input: Good evening}
    assert: [{type: contains, value: 'Bonsoir'}]
  - vars: {language: Spanish, input: Where is the station?}
    assert: [{type: icontains, value: 'Dónde está la estación'}]
"""
    done = promptfoo(tmp_path, config)
    assert left_out(done) == changed(done) == []
    assert len(done.runs) == 4
    first, second = items(done, "prompt-1", "openai-gpt-4-1")
    assert isinstance(first.request, GenerateAnswer)
    assert first.request.instruct == "Put this into French: Good evening"
    assert (first.request.model, first.request.iter_max) == ("openai:gpt-4.1", 1)
    assert checks(second) == [{"kind": "contains", "value": "Dónde está la estación", "ignore_case": True}]
    assert verdict(second, "¿dónde está la estación?")
    assert not verdict(second, "station")
    assert all(each.hidden and each.required for each in second.request.rubric or [])
    assert items(done, "prompt-2", "openai-o4-mini")[0].custom_id == first.custom_id


def test_simple_test(tmp_path: Path):
    """Prompts in a text file, code, similarity, and a `$ref`. `Yes` is a text, as in YAML 1.2."""
    config = """
prompts: [file://prompts.txt]
providers: [openai:gpt-4.1-mini]
tests:
  - description: Exactly one word
    vars: {body: Yes}
    assert: [{type: equals, value: Aye}]
  - vars: {body: Tell your life as JSON}
    assert: [{type: is-json}]
  - description: By meaning
    vars: {body: Hello}
    assert:
      - {type: javascript, value: "output.length < 9"}
      - {type: python, value: "len(output)"}
      - {type: similar, value: Ahoy}
  - vars: {body: A fox jumps}
    assert:
      - {type: llm-rubric, value: Sounds like a sailor}
      - $ref: '#/assertionTemplates/sailor'
outputPath: out.csv
assertionTemplates:
  sailor: {type: icontains, value: aye}
"""
    done = promptfoo(tmp_path, config, prompts__txt="Talk like a sailor: {{body}}\n")
    found = items(done)
    assert [each.request.instruct for each in found[:1]] == ["Talk like a sailor: Yes"]
    assert found[0].request.metadata == {"description": "Exactly one word"}
    assert checks(found[1]) == [{"kind": "is_json"}]
    assert [each.kind for each in found[2].request.rubric or []] == ["scale"]
    assert [each.id for each in found[3].request.rubric or []] == ["llm-rubric", "icontains"]
    assert left_out(done) == [
        "assertion javascript: it is code, which is not carried",
        "assertion python: it is code, which is not carried",
    ]
    assert changed(done) == [
        "assertion similar: the evaluator rates the similarity, which promptfoo computed from embeddings"
    ]


def test_self_grading(tmp_path: Path):
    """Assertions of the default test hold for each test."""
    config = """
prompts: file://prompts.txt
providers: openai:chat:gpt-4.1
defaultTest:
  assert:
    - {type: llm-rubric, value: Does not call itself a machine}
    - {type: javascript, value: "Math.max(0, 1 - output.length / 900)"}
tests:
  - vars: {name: Bob, question: Do you ship abroad?}
  - vars: {name: Eve, question: Where is my parcel?}
"""
    done = promptfoo(
        tmp_path, config, prompts__txt="For {{name}}: {{question}}\n---\nDear {{ name }}, {{ question }}\n"
    )
    assert len(done.runs) == 2
    assert [each.request.instruct for each in items(done, "prompt-1-2")] == [
        "Dear Bob, Do you ship abroad?",
        "Dear Eve, Where is my parcel?",
    ]
    assert [(each.what, each.places) for each in done.findings.left_out] == [("assertion javascript", 2)]
    assert done.settings["openai-gpt-4-1"]["model"] == "openai:gpt-4.1"


def test_simple_csv(tmp_path: Path):
    """Tests in a CSV file, whose cells `__expected` are assertions."""
    cells = "language,body,style,__expected\n"
    cells += 'French,"Good day","{""tone"":""mild""}","icontains:bonjour"\nGreek,"I am, well",x,kala\n'
    config = "{prompts: [file://p.txt], providers: [openai:gpt-3.5-turbo], tests: file://tests.csv}"
    done = promptfoo(tmp_path, config, p__txt="In {{language}}, {{style}}: {{body}}", tests__csv=cells)
    first, second = items(done)
    assert first.request.instruct == 'In French, {"tone":"mild"}: Good day'
    assert checks(first) == [{"kind": "contains", "value": "bonjour", "ignore_case": True}]
    assert checks(second) == [{"kind": "equals", "value": "kala"}]
    assert left_out(done) == []


def test_json_output(tmp_path: Path):
    """JSON with a schema. An assertion, or a test, whose answer code changes before is not carried."""
    config = """
prompts: ['As JSON with `hue` and `lands`: {{item}}']
providers: [openai:chat:gpt-3.5-turbo]
tests:
  - vars: {item: Lemon}
    assert:
      - type: is-json
        value: {type: object, required: [hue], properties: {hue: {type: string}}}
      - {type: contains-any, transform: output.lands, value: [Italy, Spain]}
  - vars: {item: Plum}
    options: {transform: JSON.parse(output)}
    assert: [{type: is-json}]
"""
    done = promptfoo(tmp_path, config)
    first, second = done.datasets["prompt-1"]
    assert [each["check"]["kind"] for each in first["rubric"]] == ["json_schema"]
    assert "rubric" not in second
    assert left_out(done) == [
        "assertion contains-any: its `transform` changes the answer by code",
        "options.transform: Redraft has no counterpart",
        "all assertions of the test: options of the test change the answer or the variables by code before",
    ]


def test_multiple_turn_conversation(tmp_path: Path):
    """A prompt that loops over earlier outputs is not carried, so that there is no dataset."""
    config = """
prompts: [{id: file://prompt.json, label: several-turns}]
providers: [openai:gpt-4.1-mini]
defaultTest: {vars: {system_message: Be kind}}
tests:
  - vars: {question: Who wrote Emma?}
    metadata: {conversationId: books}
"""
    looped = '[{"role": "system", "content": "{{ system_message }}"}, {% for turn in _conversation %} {% endfor %}]'
    done = promptfoo(tmp_path, config, prompt__json=looped)
    assert done.datasets == {}
    assert done.runs == []
    assert [each.partition(":")[0] for each in left_out(done)] == ["the evaluation of the test", "prompt several-turns"]
    assert "more than plain variables: {% for turn in _conversation" in left_out(done)[1]


def test_openai_eval_factuality(tmp_path: Path):
    """Two files as prompts; a fact and a criterion for a model."""
    config = """
providers: [openai:gpt-3.5-turbo]
prompts: [file://prompts/short.txt, file://prompts/long.txt]
tests:
  - vars: {place: Bern}
    assert:
      - {type: factuality, value: Bern lies on the Aare}
      - {type: model-graded-closedqa, value: 'Says nothing but the facts about {{place}}'}
"""
    done = promptfoo(tmp_path, config, prompts___short__txt="Name it: {{place}}", prompts___long__txt="Tell: {{place}}")
    assert list(done.datasets) == ["prompt-1", "prompt-2"]
    found = criteria(done)
    assert found["factuality"]["text"].endswith("Bern lies on the Aare")
    assert found["model-graded-closedqa"]["text"] == "Says nothing but the facts about Bern"
    assert left_out(done) == []


def test_rag_eval(tmp_path: Path):
    """A variable is the text of a file; measures of retrieval are listed."""
    config = """
prompts:
  - |
    You work for us.
    Answer {{query}} from this: {{context}}
providers: [openai:gpt-4.1-mini]
tests:
  - vars: {query: How much is free?, context: file://docs/money.md}
    assert:
      - {type: contains, value: '$500'}
      - {type: answer-relevance, threshold: 0.9}
      - {type: context-recall, threshold: 0.9, value: at most $500}
      - {type: context-faithfulness, threshold: 0.9}
"""
    done = promptfoo(tmp_path, config, docs___money__md="# Money\n\nUp to $500.\n")
    (item,) = items(done)
    assert item.request.instruct == "You work for us.\nAnswer How much is free? from this: # Money\n\nUp to $500.\n"
    kinds = ("answer-relevance", "context-recall", "context-faithfulness")
    assert left_out(done) == [f"assertion {kind}: Redraft has no counterpart" for kind in kinds]


def test_openai_chat_history(tmp_path: Path):
    """Messages as JSON: the last is the task, the turns before it are the conversation."""
    messages = [
        {"role": "system", "content": "{{system}}"},
        {"role": "user", "content": "Who painted {{work}}?"},
        {"role": "assistant", "content": "Vermeer"},
        {"role": "user", "content": [{"type": "text", "text": "{{question}}"}]},
    ]
    config = """
prompts: [file://prompt.json]
providers: [openai:gpt-3.5-turbo]
defaultTest: {vars: {system: file://system.txt, work: it}}
tests:
  - vars: {question: Where?}
    assert: [{type: contains, value: Delft}]
"""
    done = promptfoo(tmp_path, config, prompt__json=messages, system__txt="Be brief.\n")
    (item,) = items(done)
    assert isinstance(item.request, GenerateAnswer)
    assert item.request.instruct == "Where?"
    assert item.request.conversation == [["Who painted it?", "Vermeer"]]
    assert item.request.system_instructions == "Be brief."


def test_prompts_per_model(tmp_path: Path):
    """A provider runs only the prompts that it names by their labels."""
    config = """
prompts: [{id: file://one.txt, label: My first}, {id: file://two.txt, label: My second}]
providers:
  - {id: openai:gpt-4.1-mini, prompts: [My first, My second]}
  - {id: openai:gpt-4.1, prompts: [My first]}
tests: [{vars: {topic: tea}}, {vars: {topic: the sea}}]
"""
    done = promptfoo(tmp_path, config, one__txt="On {{topic}}", two__txt="About {{topic}}")
    assert done.runs == [
        ("my-first", "openai-gpt-4-1-mini"),
        ("my-second", "openai-gpt-4-1-mini"),
        ("my-first", "openai-gpt-4-1"),
    ]
    assert left_out(done) == ["the evaluation of the test: there is no criterion; give criteria with --crit"]


def test_assertion_sets_and_judges_of_other_models(tmp_path: Path):
    """A set without a threshold is its assertions. A set with a threshold has a score of its own."""
    config = """
prompts: ['Explain {{what}}']
providers:
  - id: anthropic:messages:claude-sonnet-4-5
    label: sonnet
    config: {temperature: 0.2, max_tokens: 50, apiKey: sk-x}
tests:
  - vars: {what: tides}
    assert:
      - type: assert-set
        assert:
          - {type: latency, threshold: 200}
          - {type: contains, value: moon}
      - type: assert-set
        threshold: 0.66
        assert: [{type: llm-rubric, value: Right}]
      - {type: g-eval, value: [Clear, Complete], threshold: 0.8, provider: openai:gpt-5}
"""
    done = promptfoo(tmp_path, config)
    assert sorted(left_out(done)) == [
        "assertion assert-set: Redraft has no counterpart",
        "assertion assert-set: a set of assertions with a threshold has a score of its own",
        "parameter apiKey: Redraft has no such parameter",
    ]
    assert done.settings["sonnet"] == {
        "iter_max": 1,
        "model": "anthropic:claude-sonnet-4-5",
        "sampling": {"temperature": 0.2, "max_output_tokens": 50},
        "evaluator_model": "openai:gpt-5",
    }
    assert "sk-x" not in str(done.as_json())
    assert criteria(done)["g-eval"]["anchors"]["4"] == "a score of 0.8"


def test_outputs_of_an_earlier_run_are_only_evaluated(tmp_path: Path):
    config = """
prompts: ['{{question}}']
providers: [echo]
tests: [{vars: {question: How far?}, providerOutput: Ten miles, threshold: 0.5,
         assert: [{type: contains, value: miles, weight: 3}, {type: regex, value: '\\d+'}]}]
"""
    done = promptfoo(tmp_path, config)
    (item,) = items(done)
    assert isinstance(item.request, EvaluateAnswer)
    assert item.request.answer == "Ten miles"
    assert item.request.score_threshold == 0.5
    assert [(each.weight, each.required) for each in item.request.rubric or []] == [(3, False), (1, False)]
    assert [each.split(":")[0] for each in left_out(done)] == ["provider echo"]
