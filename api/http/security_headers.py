"""The security headers of all responses. No response allows other sites to embed it or to read it (no CORS)."""

ALWAYS = {"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin"}
"""Headers of every response."""

UNLESS_SET = {"Referrer-Policy": "no-referrer"}
"""Headers of every response whose route does not set them."""

NOT_STATIC = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
}
"""Headers of every response whose route does not set them, except static files."""

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy of the pages: only scripts and styles of this site."""

REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"
"""The Content-Security-Policy of a report: a single file with inline styles, which loads nothing."""

ANSWER_POLICY = "sandbox; default-src 'none'"
"""The Content-Security-Policy of an answer as a file. It keeps browsers from executing a model's text as a page."""
