"""Renders the `vars` of a request: in its texts, and in its generator template.

A request names a template, and the stored request names its version.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from redraft.domain.bodies.fields import FilledText, Text
from redraft.domain.bodies.validation_errors import message_of
from redraft.domain.calls.conversation import Prompt
from redraft.domain.jobs.requests import AnyRequest, GenerateAnswer, RescoreAnswers
from redraft.errors import FieldError, Invalid
from redraft.operations.request_views import schema_of
from redraft.operations.services import Services
from redraft.operations.template_lookup import template_of
from redraft.prompts.render import generation_prompt
from redraft.prompts.template_files import GeneratorTemplate
from redraft.prompts.text_templates import TemplateFault, has_placeholders, literal, names_in, render_field

_ESCAPE = (
    " With `vars`, this text is a template. To keep braces as they are, write {% raw %} before "
    "and {% endraw %} after them."
)
_TEMPLATE_CODES = {"undefined_variable", "invalid_template"}
_RENDERED = ("instruct", "resp_format", "eval_crit", "system_instructions")


def prompt_with(request: GenerateAnswer, template: GeneratorTemplate) -> Prompt:
    """Return the first prompt with a template. Raises Invalid if the template does not fit the request."""
    try:
        return generation_prompt(request, None, schema_of(request), template)
    except TemplateFault as fault:
        advice = " Add it to `vars`." if fault.code == "undefined_variable" else ""
        words = f"generator_template {template.reference}: {fault}.{advice}"
        raise Invalid.at("/vars", words, fault.code) from None


def with_rendered_texts(services: Services, request: AnyRequest, *, is_row: bool) -> AnyRequest:
    """Render the texts of a request with its `vars`, and pin the version of its template.

    Without `vars`, the texts stay as they are. The returned request keeps only the `vars` that the template uses.

    Args:
        services: the services.
        request: the request as it was sent.
        is_row: whether the request is an item of a run. Its texts are already rendered, and its `vars` may be unused.

    Raises:
        Invalid: a text or the template names a variable that is missing, a variable is not used, a text becomes too
            long or empty, or there is no such template.
    """
    template = template_of(services, request, is_new=True)
    if isinstance(request, RescoreAnswers) or not (request.vars or template):
        return request
    renders = bool(request.vars) and not is_row
    texts = {name: text for name in _RENDERED if (text := getattr(request, name, None))} if renders else {}
    used = _used(texts)
    in_template = template.variables if template else frozenset[str]()
    errors: list[FieldError] = []
    rendered = request.model_copy(update=_rendered(texts, request.vars, errors))
    if not errors and template and isinstance(rendered, GenerateAnswer):
        try:
            prompt_with(rendered, template)
        except Invalid as invalid:
            errors += invalid.errors
    # A misspelled name in a text also makes its variable unused, so the error of the text comes first
    errors += _unused(request.vars, used | in_template) if not is_row else []
    if errors:
        raise Invalid(errors[0].detail, tuple(errors))
    # A template that reads `vars` as a whole may use every variable
    kept = {name: value for name, value in request.vars.items() if {name, "vars"} & in_template}
    reference = {"generator_template": template.reference} if template else {}
    return rendered.model_copy(update={"vars": kept, **reference})


def as_sent(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored request as a user would send it: with `vars`, the braces in its rendered texts are escaped."""
    if not request.get("vars"):
        return dict(request)
    texts = {name: literal(text) for name in _RENDERED if (text := request.get(name))}
    return {**request, **texts}


def _used(texts: Mapping[str, str]) -> frozenset[str]:
    errors: list[FieldError] = []
    found: set[str] = set()
    for name, text in texts.items():
        try:
            found |= names_in(text)
        except TemplateFault as fault:
            errors.append(FieldError(f"/{name}", f"{name}: {fault}.{_ESCAPE}", fault.code))
    if errors:
        raise Invalid(errors[0].detail, tuple(errors))
    return frozenset(found)


def _unused(variables: Mapping[str, Any], used: frozenset[str]) -> list[FieldError]:
    words = "no text uses {{{{ {name} }}}}; write it into a text, or remove the variable."
    return [
        FieldError(f"/vars/{name}", f"vars.{name}: {words.format(name=name)}", "unused_variable")
        for name in variables
        if not {name, "vars"} & used
    ]


def _with_advice(fault: FieldError) -> FieldError:
    return replace(fault, detail=fault.detail + _ESCAPE) if fault.code in _TEMPLATE_CODES else fault


def _rendered(texts: Mapping[str, str], variables: Mapping[str, Any], errors: list[FieldError]) -> dict[str, Any]:
    """Return the rendered texts that have variables. The errors are added to the list."""
    found: dict[str, Any] = {}
    for name, text in texts.items():
        if not has_placeholders(text):
            continue
        faults: list[FieldError] = []
        value = render_field(name, text, variables, faults)
        errors += [_with_advice(each) for each in faults]
        try:
            found[name] = TypeAdapter(FilledText if name in {"instruct", "eval_crit"} else Text).validate_python(value)
        except ValidationError as error:
            words = message_of(error.errors(include_url=False)[0])
            errors.append(FieldError(f"/{name}", f"{name}, after its variables are filled in: {words}.", "blank"))
    return found
