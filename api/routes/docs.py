"""`/docs`: the API's description for people, from files of our own, with no other server."""

from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from api.http.root_path import rooted

PAGES = Path(__file__).parent.parent / "pages"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

router = APIRouter()


@router.get("/docs", include_in_schema=False)
async def docs() -> HTMLResponse:
    """Swagger UI; 'unsafe-inline' is for the style attributes that it writes, never for scripts."""
    page = (PAGES / "docs.html").read_text("utf-8")
    return HTMLResponse(rooted(page), headers={"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"})
