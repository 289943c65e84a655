"""Every form that deletes, revokes, cancels or spends asks first, without JavaScript."""

import re
from pathlib import Path

from fastapi.routing import APIRoute, iter_route_contexts

from api.app import create_app
from redraft.settings import Settings

# The GET of the same address asks, and only its page has a form that posts there.
ASKS_FIRST = {
    "/datasets/{dataset_id}/delete",
    "/jobs/bulk",
    "/jobs/{job_id}/delete",
    "/runs/new",
    "/runs/schedules/{schedule_id}/delete",
    "/runs/schedules/{schedule_id}/resume",
    "/runs/{run_id}/cancel",
    "/runs/{run_id}/delete",
    "/runs/{run_id}/resume",
    "/settings/keys/revoke",
    "/settings/templates/{name}/delete",
    "/settings/webhooks/resend-all",
}
# Each with the reason why one press is enough.
ASKS_NOTHING = {
    "/datasets/new": "adds rows",
    "/jobs/{job_id}/cancel": "spends nothing, and Continue undoes it",
    "/jobs/{job_id}/continue": "the form itself, with its limits, is what the person wants to spend",
    "/jobs/{job_id}/deliveries/{delivery_id}/redeliver": "calls no model",
    "/jobs/{job_id}/ratings": "a later rating replaces it",
    "/new": "the form itself, with its limits, is what the person wants to spend",
    "/ratings": "a later rating replaces it",
    "/ratings/tunings/{tuning_id}/adopt": "Revert undoes it",
    "/ratings/tunings/{tuning_id}/edit": "adds a draft",
    "/ratings/tunings/{tuning_id}/revert": "Adopt undoes it",
    "/runs/schedules/{schedule_id}/pause": "Resume undoes it",
    "/runs/{run_id}/deliveries/{delivery_id}/redeliver": "calls no model",
    "/settings/keys": "adds a key",
    "/settings/models/test": "one call of at most 256 tokens",
    "/settings/templates": "adds a version",
    "/settings/webhooks/resend": "calls no model",
    "/sign-in": "changes no data",
    "/sign-out": "changes no data",
    "/theme": "changes no data",
}
TEMPLATES = Path(__file__).parents[3] / "api" / "pages" / "templates"
# The pages that ask, and the run whose budget is used up, where a person types the largest new cost.
ASKING = {
    "confirm.html",
    *("datasets/delete.html", "job/delete.html", "jobs/bulk.html", "runs/delete.html", "runs/new.html"),
    *("runs/resume.html", "runs/run.html", "settings/revoke_key.html", "settings/resend_all.html"),
    "settings/template_delete.html",
}
_ACTION = re.compile(r'method="post" action="([^"]+)"')


def page_routes(folder: Path, method: str) -> set[str]:
    app = create_app(Settings(_env_file=None, data_dir=folder))  # pyright: ignore[reportCallIssue]
    found = [context.original_route for context in iter_route_contexts(app.routes)]
    routes = [each for each in found if isinstance(each, APIRoute) and not each.include_in_schema]
    return {each.path for each in routes if method in each.methods}


def test_every_form_that_spends_or_destroys_has_a_page_that_asks(tmp_path: Path):
    assert page_routes(tmp_path, "POST") == ASKS_FIRST | ASKS_NOTHING.keys()
    assert page_routes(tmp_path, "GET") >= ASKS_FIRST


def test_only_a_page_that_asks_posts_to_such_an_address():
    asked = {re.sub(r".*(?=/[\w-]+$)", "", path) for path in ASKS_FIRST - {"/runs/new", "/jobs/bulk"}}
    assert asked == {"/delete", "/resume", "/cancel", "/revoke", "/resend-all"}
    for template in sorted(TEMPLATES.rglob("*.html")):
        name = template.relative_to(TEMPLATES).as_posix()
        actions = _ACTION.findall(template.read_text("utf-8"))
        if name == "job/frame.html":
            actions.remove("{{ base }}/cancel")
        direct = [action for action in actions if action.endswith(tuple(asked))]
        assert name in ASKING or not direct, (name, direct)


def test_no_question_needs_javascript():
    for file in (*TEMPLATES.rglob("*.html"), *(TEMPLATES.parent / "static" / "pages").glob("*.js")):
        assert not re.search(r"data-confirm|confirm\(", file.read_text("utf-8")), file
