"""Answers as people read them: Markdown of an unknown author, rendered so that nothing in it runs or loads."""

from functools import lru_cache

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup

from redraft.domain.screens import reveal

# Beyond, rendering costs more than reading is worth: the raw text is shown.
CHARS_MAX = 100_000
_TAGS = {
    *("a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p"),
    *("pre", "s", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}


def render_markdown(text: str) -> Markup:
    """Markdown as HTML of known elements: no images, no scripts, no addresses but web and mail."""
    html = _parser().render(reveal(text))
    return Markup(  # noqa: S704 - cleaned by nh3
        nh3.clean(
            html,
            tags=_TAGS,
            attributes={"a": {"href", "title"}, "ol": {"start"}},
            url_schemes={"http", "https", "mailto"},
            link_rel="noopener noreferrer nofollow",
        )
    )


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")
