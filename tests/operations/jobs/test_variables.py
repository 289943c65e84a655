"""The `vars` of a request: in its texts, in its generator template, and what is refused."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from redraft.domain.jobs.requests import ContinueJob
from redraft.errors import Conflict, Invalid, NotFound
from redraft.operations.admin.generator_templates import delete_template, preview, save_template, view_template
from redraft.operations.jobs import lifecycle
from redraft.operations.jobs.variables import as_sent
from redraft.operations.template_lookup import find_template
from tests.model_server import ModelServer
from tests.operations.bulk.test_runs import start, work_off
from tests.operations.driving import Driver

TEXTS = {
    "system.j2": "You write for {{ audience }}.\n{{ grounding_rules }}\n{{ system_instructions }}\n",
    "user.j2": "DO {{ instruct }}\n{{ resp_format }}\n{{ sources }}\n{{ criteria }}\n{{ schema }}\n",
}


@pytest.fixture
def brief(driver: Driver) -> str:
    return save_template(driver.services, "brief", TEXTS).reference


def prompts_to_the_generator(model_server: ModelServer) -> list[str]:
    return [entry.prompt for entry in model_server.requests() if entry.role == "generate"]


def test_vars_fill_in_the_texts_and_only_the_result_is_stored(driver: Driver, model_server: ModelServer):
    job = driver.run_new(
        instruct="Explain {{ topic }} to {{ who.name }}.",
        eval_crit="Fits {{ vars.who.name }}.",
        vars={"topic": "{{ 7 * 7 }}", "who": {"name": "Ada"}},
    )
    assert job.request["instruct"] == "Explain {{ 7 * 7 }} to Ada."
    assert (job.request["eval_crit"], job.request["vars"]) == ("Fits Ada.", {})
    assert all("Explain {{ 7 * 7 }} to Ada." in entry.prompt for entry in model_server.requests())


def test_without_vars_braces_are_sent_as_they_are(driver: Driver):
    text = "What does {{ x }} mean in {% raw %}?\n"
    assert driver.job(driver.submit(instruct=text, vars={})).request["instruct"] == text


@pytest.mark.parametrize(
    ("fields", "pointer", "code"),
    [
        ({"instruct": "no braces", "vars": {"name": 1}}, "/vars/name", "unused_variable"),
        ({"instruct": "{{ name }} {{ other }}", "vars": {"name": 1}}, "/instruct", "undefined_variable"),
        ({"instruct": "{{ name", "vars": {"name": 1}}, "/instruct", "invalid_template"),
        ({"instruct": "{% for x in name %}{% endfor %}", "vars": {"name": 1}}, "/instruct", "invalid_template"),
        ({"instruct": "{{ name }}", "vars": {"name": " "}}, "/instruct", "blank"),
        ({"instruct": "{{ name }}{{ name }}", "vars": {"name": "x" * 150_000}}, "/instruct", "string_too_long"),
        ({"instruct": "{{ self }}{{ name }}", "vars": {"name": 1}}, "/instruct", "undefined_variable"),
        ({"generator_template": "none"}, "/generator_template", "unknown_template"),
        ({"generator_template": "brief"}, "/vars", "undefined_variable"),
    ],
)
def test_what_does_not_fit_is_refused(driver: Driver, brief: str, fields: dict[str, Any], pointer: str, code: str):
    with pytest.raises(Invalid) as refused:
        driver.submit(**fields)
    assert [(error.pointer, error.code) for error in refused.value.errors] == [(pointer, code)]


BRACES = "Explain {{ topic }}, {{ and }}} of {% raw %} in {# Jinja #} {{{{x}}}} {{{%."


@pytest.mark.parametrize("instruct", ["{{ task }}", "{% raw %}What is {{ audience }}?{% endraw %} {{ task }}"])
def test_braces_in_a_task_are_text_for_a_template_with_variables(
    driver: Driver, model_server: ModelServer, brief: str, instruct: str
):
    fields = {"generator_template": "brief", "vars": {"audience": "Ada {{ task }}", "task": BRACES}}
    job = driver.run_new(instruct=instruct, **fields)
    text = job.request["instruct"]
    assert text == instruct.replace("{{ task }}", BRACES).replace("{% raw %}What", "What").replace("?{% endraw %}", "?")
    [sent] = prompts_to_the_generator(model_server)
    assert sent.startswith("You write for Ada {{ task }}.")
    assert f"DO {text}" in sent
    again = driver.run_new(**{name: as_sent(job.request)[name] for name in ("instruct", "generator_template", "vars")})
    assert (again.request["instruct"], again.request["vars"]) == (text, job.request["vars"])


def test_the_error_of_braces_names_the_escape(driver: Driver, brief: str):
    for text in ("Fix {{ this }}.", "Fix {% this %}."):
        with pytest.raises(Invalid, match=r"is a template.*write \{% raw %\} before and \{% endraw %\}"):
            driver.submit(instruct=text, generator_template="brief", vars={"audience": "Ada"})


def test_a_misspelled_name_is_reported_before_the_variable_that_it_leaves_unused(driver: Driver):
    with pytest.raises(Invalid, match=r"did you mean topic\?") as refused:
        driver.submit(instruct="{{ topik }}", vars={"topic": "a"})
    assert [(error.pointer, error.code) for error in refused.value.errors] == [
        ("/instruct", "undefined_variable"),
        ("/vars/topic", "unused_variable"),
    ]


def test_a_template_makes_the_prompt_and_its_version_stays(driver: Driver, model_server: ModelServer, brief: str):
    model_server.script(generate=["one", "two", "three"], evaluate=[0.2, 0.3, 0.9])
    fields = {"generator_template": "brief", "vars": {"audience": "Ada", "topic": "rain"}}
    job_id = driver.submit(
        instruct="Explain {{ topic }}.",
        iter_max=2,
        sources=[{"content": "Rain is wet."}],
        system_instructions="RHYME",
        **fields,
    )
    assert driver.job(job_id).request["vars"] == {"audience": "Ada"}
    save_template(driver.services, "brief", {**TEXTS, "system.j2": TEXTS["system.j2"] + "NEW"})
    driver.run(job_id)
    lifecycle.continue_job(driver.services, job_id, ContinueJob(iter_max=1))
    driver.run(job_id)
    sent = prompts_to_the_generator(model_server)
    assert len(sent) == 3
    assert all(each.startswith("You write for Ada.\n") and "RHYME" in each and "NEW" not in each for each in sent)
    assert all("DO Explain rain." in each and "Rain is wet." in each and "Directly after each" in each for each in sent)
    assert "# Your answer so far" in sent[2]
    assert {each.generator_template for each in driver.iterations(job_id)} == {brief}
    assert [each["job_id"] for each in view_template(driver.services, brief).jobs] == [job_id]


@pytest.mark.parametrize(
    "text",
    [
        "{% if mode != 'evil' %}{{ instruct }}{% endif %}",
        "{% if instruct|length > 10 %}{{ instruct }}{% endif %}",
        "{{ instruct }}{% if mode == 'evil' %}{{ instruct }}{% endif %}",
        "{% if mode == 'evil' %}{{ instruct|upper }}{% else %}{{ instruct }}{% endif %}",
    ],
)
def test_a_template_that_hides_a_part_from_a_job_is_refused(driver: Driver, text: str):
    user = TEXTS["user.j2"].replace("{{ instruct }}", "{{ mode }}" + text)
    save_template(driver.services, "brief", {**TEXTS, "user.j2": user})
    fields = {"generator_template": "brief", "instruct": "evil", "vars": {"audience": "Ada", "mode": "evil"}}
    with pytest.raises(Invalid, match=r"must show \{\{ instruct \}\} exactly once"):
        driver.submit(**fields)


def test_the_rows_of_a_run_give_the_variables_of_a_template(driver: Driver, model_server: ModelServer, brief: str):
    model_server.script(generate=["one"], evaluate=[0.9])
    rows = [{"instruct": "Q {{ n }} [[case:r1]]", "vars": {"n": 1, "audience": "{{ n }}", "not used": 1, "if": 1}}]
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    run = work_off(driver, start(driver, data, overrides={"generator_template": "brief"}))
    assert run.counts.succeeded == 1
    (sent,) = prompts_to_the_generator(model_server)
    assert sent.startswith("You write for {{ n }}.")
    assert "DO Q 1 " in sent


def test_versions_are_kept_compared_and_the_last_saved_one_is_current(driver: Driver, brief: str):
    services = driver.services
    later = save_template(services, "brief", {**TEXTS, "user.j2": TEXTS["user.j2"] + "END"})
    view = view_template(services, "brief", before=brief.partition("@")[2])
    assert (view.template.reference, len(view.versions)) == (later.reference, 2)
    assert list(view.changes or {}) == ["user.j2"]
    assert save_template(services, "brief", TEXTS).reference == brief == find_template(services, "brief").reference
    with pytest.raises(NotFound):
        view_template(services, "brief@000000000000")


def test_a_past_job_is_previewed_with_a_template(driver: Driver, brief: str):
    job_id = driver.submit(instruct="TASK", sources=[{"content": "FACT"}])
    template = find_template(driver.services, brief)
    prompt = preview(driver.services, template, job_id, {"audience": "Ada"})
    assert prompt.system.startswith("You write for Ada.")
    assert "DO TASK" in prompt.messages[0].content
    assert "Base the answer on this text" in prompt.messages[0].content
    with pytest.raises(Conflict):
        preview(driver.services, template, driver.submit_evaluation("ANSWER"), {})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"user.j2": "{{ instruct }}"}, "must show {{ resp_format }} exactly once"),
        ({"user.j2": TEXTS["user.j2"] + "{{ sources }}"}, "must show {{ sources }} exactly once"),
        ({"user.j2": TEXTS["user.j2"].replace("{{ sources }}", "{{ sources | upper }}")}, "must show {{ sources }}"),
        ({"system.j2": TEXTS["system.j2"] + "{{ instruct }}"}, "cannot use instruct"),
        ({"system.j2": TEXTS["system.j2"] + "{% for x in y %}{% endfor %}"}, "for is not possible here"),
    ],
)
def test_a_template_that_hides_a_part_is_not_saved(driver: Driver, change: dict[str, str], words: str):
    with pytest.raises(Invalid) as refused:
        save_template(driver.services, "brief", {**TEXTS, **change})
    assert words in refused.value.errors[0].detail


def test_a_template_of_a_file_is_used_without_the_file_later(make_driver: Callable[..., Driver], tmp_path: Path):
    folder = tmp_path / "templates" / "filed"
    folder.mkdir(parents=True)
    for file, text in TEXTS.items():
        (folder / file).write_text(text, "utf-8")
    driver = make_driver(templates_dir=folder.parent)
    job_id = driver.submit(generator_template="filed", vars={"audience": "Ada"})
    with pytest.raises(Conflict):
        save_template(driver.services, "filed", TEXTS)
    other = make_driver()
    assert other.run(job_id).status == "succeeded"
    assert other.iterations(job_id)[0].generator_template == find_template(driver.services, "filed").reference
    with pytest.raises(Invalid):
        other.submit(generator_template="filed", vars={"audience": "Ada"})


def test_a_variable_that_a_template_needs_is_asked_for(driver: Driver, brief: str):
    words = "'audience' is undefined; the vars are: none. Add it to `vars`."
    with pytest.raises(Invalid, match=re.escape(words)):
        driver.submit(generator_template=brief)
    with pytest.raises(Invalid, match=r"did you mean audiense\?") as refused:
        driver.submit(generator_template=brief, vars={"audiense": "Ada"})
    assert [error.code for error in refused.value.errors] == ["undefined_variable", "unused_variable"]


@pytest.mark.both_databases
def test_a_deleted_template_stays_for_past_jobs_only(driver: Driver, model_server: ModelServer, brief: str):
    model_server.script(generate=["one", "two"], evaluate=[0.2, 0.9])
    fields = {"generator_template": "brief", "vars": {"audience": "Ada"}}
    job_id = driver.submit(iter_max=1, **fields)
    with pytest.raises(Conflict, match=f"in use by {job_id}") as refused:
        delete_template(driver.services, "brief")
    assert refused.value.code == "template_in_use"
    driver.run(job_id)
    delete_template(driver.services, "brief")
    for gone in ("brief", brief):
        with pytest.raises(Invalid, match="There is no generator template"):
            driver.submit(**{**fields, "generator_template": gone})
    with pytest.raises(NotFound):
        delete_template(driver.services, "brief")
    lifecycle.continue_job(driver.services, job_id, ContinueJob(iter_max=1))
    driver.run(job_id)
    assert all(sent.startswith("You write for Ada.") for sent in prompts_to_the_generator(model_server))
    assert [each.generator_template for each in driver.iterations(job_id)] == [brief, brief]
    assert view_template(driver.services, brief).template.texts == TEXTS
    assert save_template(driver.services, "brief", TEXTS).reference == brief
    driver.submit(**{**fields, "generator_template": brief})


def test_a_template_that_a_running_run_names_is_not_deleted(driver: Driver, brief: str):
    run = start(driver, b'{"instruct": "Q"}', overrides={"generator_template": "brief", "vars": {"audience": "Ada"}})
    with pytest.raises(Conflict, match="is in use by "):
        delete_template(driver.services, "brief")
    work_off(driver, run)
    delete_template(driver.services, "brief")
