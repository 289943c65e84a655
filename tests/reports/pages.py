"""Reads a page of ours strictly: nothing in it but what our template writes."""

from html.parser import HTMLParser

_VOID = frozenset({"meta"})
_TAGS = frozenset(
    (
        *(
            "html",
            "head",
            "meta",
            "title",
            "style",
            "body",
            "header",
            "main",
            "footer",
            "section",
            "h1",
            "h2",
            "h3",
            "h4",
            "p",
        ),
        *("nav", "ol", "a"),
        *("dl", "dt", "dd", "div", "ul", "li", "strong", "span", "i", "figure", "figcaption", "details", "summary"),
        *("table", "caption", "thead", "tbody", "tr", "th", "td"),
        *("svg", "desc", "text", "line", "rect", "circle"),
    )
)
_ATTRIBUTES = frozenset(
    (
        *("lang", "charset", "http-equiv", "content", "name", "class", "id", "role", "scope", "tabindex"),
        *("aria-label", "aria-labelledby", "aria-hidden", "data-label", "dir"),
        *("viewbox", "x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r", "width", "height", "text-anchor"),
    )
)


class Page(HTMLParser):
    """Raises AssertionError where a page is not well formed, or holds what could act."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.words: list[str] = []
        self.ids: list[str] = []
        self.labels: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []
        assert len(self.ids) == len(set(self.ids))
        assert set(self.labels) <= set(self.ids)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _TAGS, tag
        for name, value in attrs:
            if name == "href":
                assert (value or "").startswith("#"), value
                self.labels.append((value or "")[1:])
                continue
            assert name in _ATTRIBUTES, name
            if name == "id":
                self.ids.append(value or "")
            if name == "aria-labelledby":
                self.labels += (value or "").split()
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.words.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)
