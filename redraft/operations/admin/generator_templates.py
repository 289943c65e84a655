"""Shows, saves and previews generator templates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from redraft.domain.calls.conversation import Prompt
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.domain.text.diffs import Diff, compare_words
from redraft.errors import Conflict, NotFound
from redraft.operations.jobs.queries import record_of
from redraft.operations.jobs.variables import prompt_with
from redraft.operations.request_views import parse_request
from redraft.operations.services import Services
from redraft.operations.template_lookup import find_template
from redraft.prompts.template_files import GeneratorTemplate, make_template
from redraft.storage.admin import generator_templates as stored
from redraft.storage.bulk import runs

_VERSIONS_MAX = 50
_JOBS_MAX = 20


@dataclass(frozen=True, slots=True)
class TemplateView:
    """A template with its versions and the jobs that used this version.

    Attributes:
        versions: the latest first, each with `version`, `is_file` and `saved_at`.
        jobs: the latest first, each with `job_id` and `last_used_at`.
        changes: by file, the diff from another version; None without a comparison.
    """

    template: GeneratorTemplate
    versions: Sequence[Mapping[str, Any]]
    jobs: Sequence[Mapping[str, Any]]
    changes: Mapping[str, Diff] | None


def view_template(services: Services, reference: str, *, before: str = "") -> TemplateView:
    """View a template. If `before` is given, compare it with this version. Raises the errors of `find_template`."""
    template = find_template(services, reference)
    with services.database.read() as connection:
        versions = stored.versions_of(connection, template.name, limit=_VERSIONS_MAX)
        jobs = stored.jobs_with(connection, template.reference, limit=_JOBS_MAX)
    earlier = find_template(services, f"{template.name}@{before}").texts if before else None
    changes = None if earlier is None else _changes(earlier, template.texts)
    return TemplateView(template, versions, jobs, changes)


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, Diff]:
    found = {file: compare_words(before[file], text) for file, text in after.items()}
    return {file: diff for file, diff in found.items() if any(part.kind != "equal" for part in diff.parts)}


def save_template(services: Services, name: str, texts: Mapping[str, str]) -> GeneratorTemplate:
    """Store a version of a template, which becomes the current one.

    Raises:
        Conflict: a built-in template or a file has this name.
        Invalid: a text is not a valid template (`invalid_template`).
    """
    template = make_template(name, texts)
    if name in services.templates:
        origin = services.templates[name].origin
        raise Conflict(f"{name} is a template of the origin {origin!r}, which cannot be saved: choose another name.")
    with services.database.write() as connection:
        stored.save(connection, name, template.version, template.texts, is_file=False)
    return template


def delete_template(services: Services, name: str) -> None:
    """Delete a saved template. Its versions are kept for past jobs, but new jobs cannot use them.

    Raises:
        NotFound: there is no such template.
        Conflict: a built-in template or a file has this name, a job that has not ended uses the template, or a running
            run names it.
    """
    if name in services.templates:
        origin = services.templates[name].origin
        raise Conflict(f"{name} is a template of the origin {origin!r}. Only saved templates can be deleted.")
    with services.database.write() as connection:
        if used_by := [*stored.open_jobs_with(connection, name, limit=1), *_runs_with(connection, name)]:
            words = f"The template {name} is in use by {used_by[0]}; wait until it has ended, or cancel it."
            raise Conflict(words, code="template_in_use")
        if not stored.delete(connection, name):
            raise NotFound("generator template", name)


def _runs_with(connection: Connection, name: str) -> list[str]:
    found = runs.list_active(connection)
    return [run.id for run in found if name in {_named(run.defaults), _named(run.overrides)}]


def _named(fields: Mapping[str, Any]) -> str:
    return str(fields.get("generator_template") or "").partition("@")[0]


def preview(services: Services, template: GeneratorTemplate, job_id: str, variables: Mapping[str, Any]) -> Prompt:
    """Return the first prompt that the generator of a job would get with a template.

    Raises:
        NotFound: there is no such job.
        Conflict: the job has no generator.
        Invalid: the template needs a variable that neither the job nor `variables` has.
    """
    with services.database.read() as connection:
        job = record_of(connection, job_id)
    request = parse_request(job)
    if not isinstance(request, GenerateAnswer):
        raise Conflict(f"Job {job.id} evaluates given answers, so it has no generator.")
    request = request.model_copy(update={"vars": {**request.vars, **variables}})
    return prompt_with(request, template)
