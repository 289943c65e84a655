"""Answers as people read them: Markdown of an unknown author, rendered so that nothing in it runs or loads."""

from collections.abc import Sequence
from functools import lru_cache

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup

from api.pages.parts.citation_links import CitationMarker, Frames, without_frames
from redraft.domain.text.screens import reveal

# A table of more cells than these takes a browser seconds to lay out: its lines are shown as they are.
_CELLS_MAX = 3_000
_TAGS = {
    *("a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p"),
    *("pre", "s", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}


def render_markdown(text: str, cited: Sequence[CitationMarker] = ()) -> Markup:
    """Markdown as HTML of known elements: no images, no scripts, no addresses but web and mail.

    Args:
        text: by an unknown author.
        cited: the marks in it that point to sources: they become links.
    """
    frames = Frames(cited)
    html = nh3.clean(
        _parser(with_tables=text.count("|") <= _CELLS_MAX).render(reveal(frames.put(text))),
        tags=_TAGS,
        attributes={"a": {"href", "title"}, "ol": {"start"}},
        attribute_filter=lambda _element, _name, value: without_frames(value),
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )
    return frames.link(html)


@lru_cache(maxsize=2)
def _parser(*, with_tables: bool) -> MarkdownIt:
    more = ["strikethrough", "table"] if with_tables else ["strikethrough"]
    return MarkdownIt("commonmark", {"html": False}).enable(more).disable("image")
