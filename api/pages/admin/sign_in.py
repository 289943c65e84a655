"""The pages that sign people in with an API key, and sign them out."""

from typing import Any

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from api.authentication import COOKIE, identify_by_key, refuse_foreign_page
from api.dependencies import Context, ContextOf, ServicesOf
from api.pages.parts.forms import FormOf
from api.pages.parts.rendering import own_path, page, pages_router, see_other
from redraft.domain.admin.scopes import Scope
from redraft.errors import Forbidden
from redraft.operations.admin import sign_in_sessions
from redraft.operations.resource_base import ROOT_PATH

router = pages_router()


@router.get("/sign-in")
async def show_sign_in(request: Request) -> Response:
    return page(request, "sign_in.html", next=own_path(request.query_params.get("next")), **_state(request))


@router.post("/sign-in")
async def sign_in(request: Request, context: ContextOf, form: FormOf) -> Response:
    # The path is public, so the middleware has not checked from which site the request comes
    refuse_foreign_page(request)
    path = own_path(form.text("next"))
    try:
        token = await _sign_in(request, context, form.text("key") or None)
    except Forbidden as error:
        return page(request, "sign_in.html", 403, next=path, **_state(request, error))
    response, is_https = see_other(path), request.url.scheme == "https"
    kept: dict[str, Any] = {"max_age": sign_in_sessions.LIFETIME_S, "path": _cookie_path()}
    response.set_cookie(COOKIE, token, **kept, httponly=True, samesite="lax", secure=is_https)
    return response


def _state(request: Request, error: Forbidden | None = None) -> dict[str, Any]:
    # A browser still has the cookie of a session that has ended. Signing out removes the cookie
    return {"error": error, "has_ended": error is None and COOKIE in request.cookies}


async def _sign_in(request: Request, context: Context, key: str | None) -> str:
    caller = await identify_by_key(request, context, key)
    if Scope.READ not in caller.scopes:
        raise Forbidden("The pages need a key with the scope 'read', but this key does not have it.", code="unreadable")
    return await run_in_threadpool(sign_in_sessions.sign_in, context.services, caller)


@router.post("/sign-out")
def sign_out(request: Request, services: ServicesOf) -> Response:
    refuse_foreign_page(request)
    if token := request.cookies.get(COOKIE):
        sign_in_sessions.sign_out(services, token)
    response = see_other("/sign-in", notice="signed_out")
    response.delete_cookie(COOKIE, path=_cookie_path())
    return response


def _cookie_path() -> str:
    # The path separates the cookies of two installations on one host
    return ROOT_PATH.get() or "/"
