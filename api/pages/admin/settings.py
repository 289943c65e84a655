"""The pages `/settings`, with models, profiles, webhook deliveries and the configuration."""

import json
from functools import partial
from typing import Any

from anyio import to_thread
from fastapi import Request, Response

from api.dependencies import Context, ContextOf, ServicesOf
from api.pages.parts.forms import FormOf
from api.pages.parts.rendering import page, pages_router, see_other
from redraft.errors import Invalid
from redraft.operations.admin import configuration, installation, model_checks, overview, readiness
from redraft.operations.admin.model_checks import ModelCheck
from redraft.operations.evaluation import profile_views
from redraft.operations.jobs import webhooks

router = pages_router("/settings")

# A person waits for the page, so the call has a shorter timeout than the calls of jobs
_CHECK_S = 60.0


@router.get("")
def show_settings(request: Request, context: ContextOf) -> Response:
    return _settings_page(request, context)


@router.post("/models/test")
async def test_model(request: Request, context: ContextOf, form: FormOf) -> Response:
    name = form.text("model")
    check = partial(model_checks.check_model, context.services, name, timeout_s=_CHECK_S)
    try:
        checked, problem = await context.wait_for_model(check), None
    except Invalid as error:
        checked, problem = None, error.message
    return await to_thread.run_sync(lambda: _settings_page(request, context, checked, name, problem))


@router.get("/models/test")
async def show_models() -> Response:
    # This is the URL of the page after a test, which a user can reload
    return see_other("/settings")


def _settings_page(
    request: Request, context: Context, checked: ModelCheck | None = None, asked: str = "", error: str | None = None
) -> Response:
    services = context.services
    return page(
        request,
        "settings/settings.html",
        422 if error else 200,
        models=installation.list_models(services),
        workers_alive=overview.list_workers(services),
        parts=installation.inspect_parts(services),
        checks=readiness.check_readiness(services),
        checked=checked,
        asked=asked,
        error=error,
    )


@router.get("/profiles")
async def show_profiles(request: Request, services: ServicesOf) -> Response:
    folder = services.settings.profiles_dir
    return page(request, "settings/profiles.html", profiles=services.profiles.all(), folder=folder)


@router.get("/profiles/{name}")
def show_profile(request: Request, services: ServicesOf, name: str) -> Response:
    version, other = (request.query_params.get(each, "") for each in ("from", "with"))
    found = profile_views.view_profile(services, name, version=version, other=other)
    # The page lists a field of the evaluation only if the evaluator's reply has another name for it
    mapping = {role: field for role, field in found.profile.mapping.items() if role not in ("all", field)}
    return page(
        request,
        "settings/profile.html",
        profile=found.profile,
        versions=found.versions,
        changes=found.changes,
        before=f"version {version}" if version else other,
        renamed={role: field if isinstance(field, str) else ", ".join(field) for role, field in mapping.items()},
        schema=json.dumps(found.profile.reply_schema, indent=2, ensure_ascii=False),
        others=[each for each in services.profiles.all() if each.name != name],
        other=other,
    )


@router.get("/webhooks")
def show_webhooks(request: Request, services: ServicesOf) -> Response:
    only_failed, after = request.query_params.get("status") == "failed", request.query_params.get("after")
    found, cursor = webhooks.latest_deliveries(services, only_failed=only_failed, cursor=after)
    shown: dict[str, Any] = {"deliveries": found, "cursor": cursor, "only_failed": only_failed}
    shown["counts"] = webhooks.count_failed(services)
    return page(request, "settings/webhooks.html", is_signed=bool(webhooks.keys_of(services.settings)), **shown)


@router.post("/webhooks/resend")
def resend(services: ServicesOf, form: FormOf) -> Response:
    webhooks.redeliver(services, form.text("owner_id"), form.text("delivery_id"))
    is_filtered = form.text("status") == "failed"
    return see_other("/settings/webhooks", notice="resent", **({"status": "failed"} if is_filtered else {}))


@router.get("/webhooks/resend-all")
def ask_to_resend_all(request: Request, services: ServicesOf) -> Response:
    return page(request, "settings/resend_all.html", counts=webhooks.count_failed(services))


@router.post("/webhooks/resend-all")
def resend_all(services: ServicesOf) -> Response:
    webhooks.redeliver_all(services)
    return see_other("/settings/webhooks", notice="all_resent")


@router.get("/configuration")
def show_configuration(request: Request, services: ServicesOf) -> Response:
    found = configuration.settings_in_effect(services.settings)
    only_changed = request.query_params.get("show") == "changed"
    shown = [each for each in found if not (only_changed and each.is_default)]
    return page(request, "settings/configuration.html", settings=shown, only_changed=only_changed, count=len(found))
