"""Signing in to the pages with an API key, and out."""

from typing import Any

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from api.authentication import COOKIE, identify_by_key, refuse_foreign_page
from api.dependencies import ContextOf, ServicesOf
from api.pages.parts.forms import FormOf
from api.pages.parts.rendering import own_path, page, pages_router, see_other
from redraft.domain.admin.scopes import Scope
from redraft.errors import Forbidden
from redraft.operations.admin import sign_ins
from redraft.operations.admin.keys import Caller
from redraft.operations.resource_base import ROOT_PATH

router = pages_router()


@router.get("/sign-in")
async def show_sign_in(request: Request) -> Response:
    """The form that asks for a key."""
    return page(request, "sign_in.html", next=own_path(request.query_params.get("next")), error=None)


@router.post("/sign-in")
async def sign_in(request: Request, context: ContextOf, form: FormOf) -> Response:
    """Open the pages for this browser, and go to where it wanted to go."""
    refuse_foreign_page(request)
    goal = own_path(form.text("next"))
    try:
        caller = await identify_by_key(request, context, form.text("key") or None)
        _ensure_sees(caller)
    except Forbidden as error:
        return page(request, "sign_in.html", 403, next=goal, error=error)
    token = await run_in_threadpool(sign_ins.sign_in, context.services, caller)
    return _with_cookie(see_other(goal), token, is_secure=request.url.scheme == "https")


@router.post("/sign-out")
def sign_out(request: Request, services: ServicesOf) -> Response:
    """Close the pages for this browser."""
    refuse_foreign_page(request)
    if token := request.cookies.get(COOKIE):
        sign_ins.sign_out(services, token)
    response = see_other("/sign-in", notice="signed_out")
    response.delete_cookie(COOKIE, path=_path())
    return response


def _ensure_sees(caller: Caller) -> None:
    if Scope.READ not in caller.scopes:
        raise Forbidden("This key may not see anything: the pages need one with the scope 'read'.", code="unreadable")


def _with_cookie(response: Response, token: str, *, is_secure: bool) -> Response:
    kept: dict[str, Any] = {"max_age": sign_ins.LIFETIME_S, "path": _path()}
    response.set_cookie(COOKIE, token, **kept, httponly=True, samesite="lax", secure=is_secure)
    return response


def _path() -> str:
    """Two installations under one name have a cookie each."""
    return ROOT_PATH.get() or "/"
