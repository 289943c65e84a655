"""Finds generator templates: the files of this process, and the versions that the database has."""

from weakref import WeakKeyDictionary

from sqlalchemy import Connection

from redraft.domain.jobs.requests import AnyRequest, GenerateAnswer
from redraft.errors import Invalid, NotFound
from redraft.operations.services import Services
from redraft.prompts.template_files import GeneratorTemplate
from redraft.storage.admin import generator_templates as stored
from redraft.storage.engine.unit_of_work import Database

_KNOWN_MAX = 256

# The versions that each database contains. A version never changes
_known: WeakKeyDictionary[Database, dict[str, GeneratorTemplate]] = WeakKeyDictionary()


def find_template(services: Services, reference: str) -> GeneratorTemplate:
    """Return a template by NAME (its current version) or NAME@VERSION. A file has precedence over saved versions.

    Raises NotFound if there is no such template or version.
    """
    name, _, version = reference.partition("@")
    file = services.templates.get(name)
    if file is not None and version in {"", file.version}:
        return file
    known = _known_of(services)
    if reference in known:
        return known[reference]
    with services.database.read() as connection:
        row = stored.find(connection, name, version or None)
    if row is None:
        raise NotFound("generator template", reference)
    template = GeneratorTemplate(row["name"], row["version"], row["texts"], row["is_file"])
    _remember(services, template)
    return template


def list_templates(services: Services) -> list[GeneratorTemplate]:
    """Return the current version of each template, by name."""
    with services.database.read() as connection:
        saved = stored.names(connection)
    return [find_template(services, name) for name in sorted({*services.templates, *saved})]


def template_of(services: Services, request: AnyRequest, *, is_new: bool = False) -> GeneratorTemplate | None:
    """Return the template that a request names; None if the request names no template.

    Raises Invalid (`unknown_template`) if there is no such template, or if it was deleted and the request is new.
    """
    reference = request.generator_template if isinstance(request, GenerateAnswer) else None
    try:
        if is_new:
            _refuse_deleted(services, reference)
        return (reference and find_template(services, reference)) or None
    except NotFound:
        known = ", ".join(each.name for each in list_templates(services)) or "none"
        words = f"There is no generator template {reference!r}; known are {known}."
        raise Invalid.at("/generator_template", words, "unknown_template") from None


def _refuse_deleted(services: Services, reference: str | None) -> None:
    # Past jobs read the versions of deleted templates, so `find_template` returns them
    name, _, version = (reference or "").partition("@")
    if not version or name in services.templates:
        return
    with services.database.read() as connection:
        if stored.is_deleted(connection, name, version):
            raise NotFound("generator template", reference or "")


def unstored_template_of(services: Services, request: AnyRequest) -> GeneratorTemplate | None:
    """Return the template that a request names if it is a file, and the database may not have its version yet."""
    template = template_of(services, request)
    if template is None or not template.is_file or template.reference in _known_of(services):
        return None
    with services.database.read() as connection:
        is_stored = stored.find(connection, template.name, template.version) is not None
    if not is_stored:
        return template
    _remember(services, template)
    return None


def keep(connection: Connection, template: GeneratorTemplate | None) -> None:
    """Store the version of a file in the unit of work of a job that uses it."""
    if template is not None:
        stored.save(connection, template.name, template.version, template.texts, is_file=True)


def _known_of(services: Services) -> dict[str, GeneratorTemplate]:
    return _known.setdefault(services.database, {})


def _remember(services: Services, template: GeneratorTemplate) -> None:
    known = _known_of(services)
    if len(known) >= _KNOWN_MAX:
        known.clear()
    known[template.reference] = template
