"""The built-in generator templates: which jobs use them by default, and that their names stay theirs."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import event

from redraft.errors import Conflict, Invalid
from redraft.operations.admin.generator_templates import delete_template, save_template
from redraft.prompts.template_files import SHORT, STANDARD, built_in_templates, load_templates
from redraft.storage.admin.generator_templates import find
from tests.operations.driving import Driver

BUNDLED = "local:smollm2-135m"
REFERENCES = {name: template.reference for name, template in built_in_templates().items()}


@pytest.mark.parametrize(
    ("fields", "reference"),
    [
        ({"model": BUNDLED}, REFERENCES[SHORT]),
        ({"model": [BUNDLED, BUNDLED]}, REFERENCES[SHORT]),
        ({"model": BUNDLED, "generator_template": STANDARD}, REFERENCES[STANDARD]),
        ({"model": [BUNDLED, "openai:other"]}, None),
        ({}, None),
    ],
)
def test_only_the_bundled_model_has_the_short_template_as_its_default(
    driver: Driver, fields: dict[str, object], reference: str | None
):
    assert driver.job(driver.submit(**fields)).request["generator_template"] == reference


def test_an_own_model_file_has_the_standard_template(make_driver: Callable[..., Driver], tmp_path: Path):
    driver = make_driver(local_model=tmp_path / "own.gguf")
    (tmp_path / "own.gguf").touch()
    assert driver.job(driver.submit(model=BUNDLED)).request["generator_template"] is None


def test_only_the_first_job_stores_the_version_of_a_file(driver: Driver):
    driver.submit(generator_template=STANDARD)
    statements: list[str] = []

    @event.listens_for(driver.services.database.engine, "before_cursor_execute")
    def note(_connection: object, _cursor: object, text: str, *_: object) -> None:  # pyright: ignore[reportUnusedFunction]
        statements.append(text)

    driver.submit(generator_template=STANDARD)
    assert not [each for each in statements if "INSERT INTO generator_templates" in each]
    with driver.services.database.read() as connection:
        name, _, version = REFERENCES[STANDARD].partition("@")
        assert find(connection, name, version) is not None


@pytest.mark.parametrize("name", [STANDARD, SHORT])
def test_the_name_of_a_built_in_template_cannot_be_used_for_another(driver: Driver, tmp_path: Path, name: str):
    texts = built_in_templates()[name].texts
    with pytest.raises(Conflict, match="choose another name"):
        save_template(driver.services, name, texts)
    with pytest.raises(Conflict, match="Only saved templates"):
        delete_template(driver.services, name)
    (tmp_path / name).mkdir()
    for file, text in texts.items():
        (tmp_path / name / file).write_text(text, "utf-8")
    with pytest.raises(Invalid, match=f"{name} is a built-in template; rename the folder"):
        load_templates(tmp_path)
