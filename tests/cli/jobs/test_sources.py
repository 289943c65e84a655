"""`redraft ask --source`: texts and lists of chunks, what is told of them, and what cannot be one."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from redraft.cli import output
from redraft.cli.source_files import read_sources, title_of
from redraft.domain.bodies.fields import MAX_TEXT
from redraft.domain.jobs.requests import MAX_SOURCES
from tests.model_server.server import ModelServer
from tests.support.shells import Shell

ONCE = ("--iter-max", "1")
AARE = "The Aare flows through Bern and around its old town."
RHINE = {"content": "Basel lies on the Rhine.", "chunk_id": "c7", "relevance_score": 0.5}
GOOD = "The Aare flows through Bern [Source 1]. Basel lies on the Rhine [Source 2]."


def test_files_add_up_in_order_and_their_numbers_are_told(office: Shell, provider: ModelServer, tmp_path: Path) -> None:
    (tmp_path / "aare.md").write_text(f"\ufeff```\n# no heading\n```\n\n## The Aare ##\n\n{AARE}\n")
    (tmp_path / "chunks.jsonl").write_text(f'{json.dumps(RHINE)}\n\n{{"content": "Two."}}\n')
    (tmp_path / "list.json").write_text('[{"content": "Three.", "title": "T"}]')
    (tmp_path / "plain.csv").write_text("# a, b")
    files = ("aare.md", "chunks.jsonl", "list.json", "plain.csv")
    options = [part for file in files for part in ("--source", file)]
    done = office.run("ask", "Go.", "--crit", "good", *options, *ONCE, "--json")
    sources = done.data["request"]["sources"]
    assert [each["title"] for each in sources] == ["The Aare", None, None, "T", "plain.csv"]
    assert [each["document_id"] for each in sources] == ["aare.md", None, None, None, "plain.csv"]
    assert (sources[1]["chunk_id"], sources[1]["relevance_score"]) == ("c7", 0.5)
    assert sources[0]["content"].endswith(f"{AARE}\n")
    for words in ("Source 1: The Aare", "Source 2: c7", "Source 3: Two.", "Source 4: T", "Source 5: plain.csv"):
        assert words in done.err


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        ("Plain words.", ["Plain words."]),
        ('{"content": "One."}\n{"content": "Two."}', ["One.", "Two."]),
        ('[\n  {"content": "One."}\n]', ["One."]),
        ('{\n  "content": "One."\n}', ["One."]),
        ("[a link](https://a.test)", ["[a link](https://a.test)"]),
    ],
)
def test_sources_can_be_piped(office: Shell, provider: ModelServer, text: str, contents: list[str]) -> None:
    done = office.run("ask", "Go.", "--crit", "good", "--source", "-", *ONCE, "--json", stdin=text)
    assert [each["content"] for each in done.data["request"]["sources"]] == contents


def test_each_option_of_grounding_becomes_its_field(office: Shell, provider: ModelServer, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(AARE)
    options = ["--source", "a.txt", "--mode", "analytical", "--output-format", "bullets", "--citation-style", "endnote"]
    options += ["--template", "comparison", "--no-citations", "--allow-ungrounded", "--annotate"]
    done = office.run("ask", "Go.", "--crit", "good", *options, *ONCE, "--json")
    assert done.data["request"]["grounding"] == {
        "mode": "analytical",
        "output_format": "bullets",
        "include_citations": False,
        "citation_style": "endnote",
        "require_grounding": False,
        "template": "comparison",
        "annotate_unverified": True,
    }


def test_a_schema_can_be_a_name(office: Shell, provider: ModelServer, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(AARE)
    options = ("--source", "a.txt", "--schema", "answer_with_sources")
    done = office.run("ask", "Go.", "--crit", "good", *options, *ONCE, "--json")
    assert done.data["request"]["answer_schema"] == "answer_with_sources"


def test_the_end_tells_what_the_answer_cites_and_what_nothing_supports(
    office: Shell, provider: ModelServer, tmp_path: Path
) -> None:
    (tmp_path / "aare.md").write_text(f"# The \u202e Aare\n\n{AARE}\n")
    (tmp_path / "chunks.jsonl").write_text(json.dumps(RHINE))
    provider.script(generate=[f"{GOOD} Fondue tastes best in winter."], evaluate=[0.9])
    options = ("--source", "aare.md", "--source", "chunks.jsonl", "--allow-ungrounded", *ONCE)
    done = office.run("ask", "Go.", "--crit", "good", *options)
    assert done.out == f"{GOOD} Fondue tastes best in winter.\n"
    told = done.err[done.err.index("\nSources:") :].splitlines()
    assert told[1:] == [
        "Sources:",
        "[Source 1] The \\u202e Aare",
        "[Source 2] c7",
        "Grounding: 0.66, 2 of 2 sources cited",
        "Not supported: Fondue tastes best in winter.",
    ]


def test_the_iterations_tell_why_an_answer_does_not_rest_on_its_sources(
    office: Shell, provider: ModelServer, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text(AARE)
    right = "The Aare flows through Bern [Source 1]."
    rubric = tmp_path / "rubric.json"
    rubric.write_text(json.dumps([{"id": "river", "kind": "check", "check": {"kind": "contains", "value": "Aare"}}]))
    for criteria in (("--crit", "good"), ("--rubric", "rubric.json")):
        provider.script(generate=["The Aare flows through Bern [Source 12].", right], evaluate=[0.9])
        done = office.run("ask", "Go.", *criteria, "--source", "a.txt")
        assert "not accepted: its sources do not support it" in done.err
        assert "[Source 12] cites source 12, but the only source is 1." in done.err
        assert "grounding 0.50" in done.err
        assert "grounding 1.00" in done.err


def test_a_page_shows_citations_claims_and_what_nothing_supports(
    office: Shell, provider: ModelServer, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text(AARE)
    answer = "The Aare flows through Bern [Source 1]. It has 97 bridges [Source 9]."
    claims = [
        {"claim": "The Aare flows through Bern.", "source": 1, "quote": "The Aare flows", "label": "supported"},
        {"claim": "It has 97 \u202e bridges.", "source": 1, "quote": "97 bridges", "label": "supported"},
    ]
    check = {"claims": claims, "ungrounded_claims": [], "grounded": True, "confidence": 0.75}
    provider.script(generate=[answer], evaluate=[check])
    job = office.run("ask", "Go.", "--profile", "grounding", "--source", "a.txt", *ONCE, "--json").data
    shown = office.run("jobs", "show", job["id"]).out
    for words in (
        "grounding  0.50, 1 of 1 source cited, confidence 0.75",
        "→ cites sources: 1 of 1, grounding 0.50",
        "  wrong citation marker: [Source 9] cites source 9",
        '  not supported: "It has 97 bridges',
        "(no source contains 97)",
        '  supported: The Aare flows through Bern. - source 1: "The Aare flows"',
        "  not supported: It has 97 \\u202e bridges. - Source 1 does not hold the quote",
        'Sources of the answer\n[Source 1] a.txt\n  "The Aare flows through Bern."',
    ):
        assert words in shown


def test_on_a_terminal_claims_have_signs(shell: Shell, add_job: Callable[..., str], model_server: ModelServer) -> None:
    claim = {"claim": "The Aare flows through Bern.", "source": 1, "quote": "The Aare flows", "label": "supported"}
    check = {"claims": [claim], "ungrounded_claims": ["Basel."], "grounded": True, "confidence": 0.75}
    model_server.script(generate=["The Aare flows through Bern [Source 1]."], evaluate=[check])
    add_job(is_done=True, sources=[{"content": AARE}], profile="grounding", iter_max=1)
    _, screen = shell.on_terminal("jobs", "show", "latest")
    assert "✓ supported: The Aare flows through Bern." in screen
    assert "✗ not supported: Basel." in screen


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["."], "cannot be read: Is a directory."),
        (["latin.txt"], "latin.txt is not UTF-8 text (byte 3). Convert it to text first."),
        (["empty.txt"], "empty.txt is empty."),
        (["nul.txt"], "nul.txt, is not a chunk: content: holds a NUL character"),
        (["broken.jsonl"], "broken.jsonl, line 2, is not JSON"),
        (["odd.jsonl"], "odd.jsonl, line 3, is not a chunk: content: This is required."),
        (["typo.json"], "typo.json, entry 2, is not a chunk: titel: Unknown field."),
        (["words.json"], "words.json, entry 1, is not a chunk"),
        (["none.json"], "none.json contains an empty list."),
        (["long.json"], "long.json, entry 1: its content has 200,001 characters; a source has at most 200,000."),
        (["many.jsonl"], "the files up to many.jsonl contain 201 sources; a job has at most 200."),
        (["-", "-"], "stdin can be read only once"),
    ],
)
def test_what_is_no_source_is_2_and_says_why(shell: Shell, tmp_path: Path, arguments: list[str], words: str) -> None:
    files = {
        "empty.txt": " \n",
        "nul.txt": "a\x00b",
        "broken.jsonl": '{"content": "One."}\n{"content": \n',
        "odd.jsonl": '{"content": "One."}\n\n{"title": "T"}\n',
        "typo.json": '[{"content": "One."}, {"content": "Two.", "titel": "T"}]',
        "words.json": '["One."]',
        "none.json": "[]",
        "long.json": json.dumps([{"content": "x" * (MAX_TEXT + 1)}]),
        "many.jsonl": '{"content": "x"}\n' * (MAX_SOURCES + 1),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "latin.txt").write_bytes(b"abc\xff")
    options = [part for file in arguments for part in ("--source", file)]
    done = shell.run("ask", "Hi", "--crit", "x", *options)
    assert (done.code, done.out) == (2, "")
    assert words in " ".join(done.err.replace("│", " ").split())
    assert "--source" in done.err


@pytest.mark.parametrize(
    "arguments", [["--source", "-"], ["-", "--source", "-"], ["Hi", "--schema", "-", "--source", "-"]]
)
def test_stdin_is_not_read_twice(shell: Shell, arguments: list[str]) -> None:
    done = shell.run("ask", *arguments, "--crit", "x", stdin="text")
    assert done.code == 2
    assert "stdin can be read only once" in " ".join(done.err.replace("│", " ").split())


@pytest.mark.parametrize(
    ("option", "pointer"),
    [("--mode", "mode"), ("--output-format", "output_format"), ("--citation-style", "citation_style")],
)
def test_a_word_that_is_none_is_2_and_names_the_option(shell: Shell, option: str, pointer: str) -> None:
    done = shell.run("ask", "Hi", "--crit", "x", option, "nonsense")
    assert done.code == 2
    assert f"{option} (/grounding/{pointer})" in " ".join(done.err.split())


def test_a_text_above_the_limit_is_split_at_paragraphs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paragraph = f"{'word ' * 1000}end.\n\n"
    text = f"# Long\n\n{paragraph * 85}{'x' * (MAX_TEXT + 10)}"
    (tmp_path / "long.md").write_text(text)
    found = read_sources(["long.md"])
    assert found is not None
    assert all(len(each["content"]) <= MAX_TEXT for each in found)
    assert [each["chunk_id"] for each in found] == [f"long.md#{number}" for number in range(1, len(found) + 1)]
    assert {(each["title"], each["document_id"]) for each in found} == {("Long", "long.md")}
    assert "".join("".join(each["content"].split()) for each in found) == "".join(text.split())
    assert [each["content"].endswith("end.") for each in found[:3]] == [True, True, False]
    said = capsys.readouterr().err
    assert "a source has at most 200,000. It is split at paragraphs into" in " ".join(said.split())


def test_many_sources_are_told_in_few_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "many.jsonl").write_text('{"content": "x"}\n' * 40)
    read_sources(["many.jsonl"])
    said = capsys.readouterr().err
    assert said.count("\n") == 13
    assert "Sources 13 to 40 are in the order of the files." in said


def test_a_source_without_names_is_called_by_its_words():
    assert title_of({"content": "a " * 100, "title": " "}) == output.one_line("a " * 100, 80)


def test_many_findings_are_cut_and_counted(
    shell: Shell, add_job: Callable[..., str], model_server: ModelServer
) -> None:
    cited = [f"The Aare flows through {place} [Source 1]." for place in ("Bern", "the town", "Bern's town", "a town")]
    bare = [f"Fondue number {number} tastes best in winter." for number in range(90, 102)]
    model_server.script(generate=[" ".join([*cited, *bare])], evaluate=[0.5])
    add_job(is_done=True, sources=[{"content": AARE}], iter_max=1)
    watched = shell.run("jobs", "watch", "latest")
    assert watched.err.count("Not supported: Fondue number") == 10
    assert watched.err.splitlines()[-1] == "  … and 2 more"
    shown = shell.run("jobs", "show", "latest").out
    assert shown.count("  not supported: ") == 10
    assert shown.splitlines()[-1] == "  … and 1 more"


def test_without_sources_nothing_is_said_of_them(
    shell: Shell, add_job: Callable[..., str], model_server: ModelServer
) -> None:
    model_server.script(generate=["Bern."], evaluate=[0.9])
    add_job(is_done=True)
    for words in (shell.run("jobs", "show", "latest").out, shell.run("jobs", "watch", "latest").err):
        assert "ource" not in words
        assert "ounding" not in words
