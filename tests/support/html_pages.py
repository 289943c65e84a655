"""A page as a person without scripts reads it: its text, links and forms over HTTP, at a tenth of a browser's cost."""

from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from typing import Any, Self
from urllib.parse import urlencode, urljoin, urlsplit
from xml.etree.ElementTree import Element, TreeBuilder

import httpx2

_FIELDS = frozenset(("input", "select", "textarea"))
Values = Mapping[str, str | bool]
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)
_BLOCKS = frozenset(
    (
        *("article", "dd", "details", "div", "dt", "fieldset", "form", "h1", "h2", "h3", "label", "li"),
        *("option", "p", "section", "td", "th", "tr", "ul"),
    )
)
_UNSEEN = frozenset(("script", "style", "template"))


class _Tree(HTMLParser):
    """Raises AssertionError where an end tag has no beginning."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self._builder = TreeBuilder()
        self._open: list[str] = []
        self._builder.start("document", {})
        self.feed(text)
        self.close()
        assert self._open == []
        self._builder.end("document")
        self.root = self._builder.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._builder.start(tag, {name: value or "" for name, value in attrs})
        if tag in _VOID:
            self._builder.end(tag)
        else:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._builder.start(tag, {name: value or "" for name, value in attrs})
        self._builder.end(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        self._builder.end(tag)

    def handle_data(self, data: str) -> None:
        self._builder.data(data)


def _pieces(element: Element) -> Iterator[str]:
    if element.tag in _UNSEEN:
        return
    yield element.text or ""
    for child in element:
        between = " " if child.tag in _BLOCKS else ""
        yield between
        yield from _pieces(child)
        yield between
        yield child.tail or ""


def text_of(element: Element) -> str:
    """The text in it, with single spaces."""
    return " ".join("".join(_pieces(element)).split())


def value_of(field: Element) -> str:
    """What a field holds before anybody writes in it."""
    if field.tag == "textarea":
        return "".join(field.itertext()).removeprefix("\n")
    if field.tag == "select":
        options = list(field.iter("option"))
        chosen = next((each for each in options if "selected" in each.attrib), options[0])
        return chosen.get("value", text_of(chosen))
    return field.get("value", "on" if field.get("type") in {"checkbox", "radio"} else "")


class HtmlPage:
    """One answer of the server."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.path = str(response.url.raw_path, "ascii")
        self.source = response.text
        self.root = _Tree(response.text).root

    @property
    def text(self) -> str:
        return text_of(self.one("main"))

    def all(self, path: str, inside: Element | None = None) -> list[Element]:
        """Elements by ElementTree's path: `tbody//tr`, `*[@role='alert']`."""
        return (self.root if inside is None else inside).findall(f".//{path}")

    def one(self, path: str, inside: Element | None = None) -> Element:
        found = self.all(path, inside)
        assert len(found) == 1, (path, [text_of(each) for each in found])
        return found[0]

    def by_id(self, name: str) -> Element:
        return self.one(f"*[@id='{name}']")

    def texts(self, path: str, inside: Element | None = None) -> list[str]:
        return [text_of(each) for each in self.all(path, inside)]

    def of_class(self, name: str, inside: Element | None = None) -> list[Element]:
        return [each for each in self.all("*[@class]", inside) if name in each.get("class", "").split()]

    def region(self, label: str) -> Element:
        """The region of that name, which a heading or itself tells."""
        named = [each for each in self.all("*[@role='region']") if self._name_of(each) == label]
        named += [each for each in self.all("section") if self._name_of(each) == label]
        assert named, label
        return named[0]

    def _name_of(self, element: Element) -> str:
        labels = element.get("aria-labelledby", "").split()
        return element.get("aria-label") or " ".join(text_of(self.by_id(each)) for each in labels)

    def link(self, name: str, inside: Element | None = None) -> Element:
        """The first link with those words."""
        found = [each for each in self.all("a[@href]", inside) if name in (text_of(each) or each.get("aria-label", ""))]
        assert found, (name, self.texts("a[@href]", inside))
        return next((each for each in found if text_of(each) == name), found[0])

    def field(self, label: str, inside: Element | None = None) -> Element:
        """The field with that label (or id, as in `#name`), in that element or form."""
        if label.startswith("#"):
            return self.by_id(label[1:])
        allowed = None if inside is None else {*inside.iter(), *self.fields_of(inside)}
        fits = [each for each in self._labelled(label) if allowed is None or each[1] in allowed]
        fits = [each for each in fits if each[0] == label] or fits
        assert len(fits) == 1, (label, [name for name, _ in fits])
        return fits[0][1]

    def _labelled(self, label: str) -> Iterator[tuple[str, Element]]:
        """Fields of which the label holds those words, with the whole label."""
        for each in self.root.iter():
            if each.tag in _FIELDS and label in each.get("aria-label", ""):
                yield each.get("aria-label", ""), each
            if each.tag == "label" and label in text_of(each):
                goal = each.get("for")
                named = self.by_id(goal) if goal else next(inner for inner in each.iter() if inner.tag in _FIELDS)
                yield text_of(each), named

    def described(self, field: Element) -> str:
        """What is said of a field beside its label."""
        return " ".join(text_of(self.by_id(each)) for each in field.get("aria-describedby", "").split())

    def form_of(self, element: Element) -> Element:
        if name := element.get("form"):
            return self.by_id(name)
        return next(form for form in self.all("form") if element in set(form.iter()))

    def fields_of(self, form: Element) -> Iterator[Element]:
        """In the order of the page, also those outside that name it."""
        inside = set(form.iter())
        for each in self.root.iter():
            if each.tag in _FIELDS and "name" in each.attrib and "disabled" not in each.attrib:
                named = each.get("form")
                if named == form.get("id") if named else each in inside:
                    yield each

    def button(self, name: str, inside: Element | None = None) -> Element:
        """The first button with those words."""
        found = [each for each in self.all("button", inside) if name in (each.get("aria-label") or text_of(each))]
        assert found, (name, self.texts("button", inside))
        return next((each for each in found if text_of(each) == name), found[0])


class Reader:
    """A person who reads pages and sends forms: `page` is the one before their eyes."""

    def __init__(self, client: httpx2.Client) -> None:
        self._client = client
        self.page: HtmlPage

    @classmethod
    def of(cls, api: Any) -> Self:
        return cls(api.client(headers={"Accept": "text/html"}, follow_redirects=True))

    def go(self, path: str) -> HtmlPage:
        return self._show(self._client.get(path))

    def click(self, name: str, inside: Element | None = None) -> HtmlPage:
        """Follow the link with those words to a page."""
        return self._show(self.follow(name, inside))

    def follow(self, name: str, inside: Element | None = None) -> httpx2.Response:
        """Follow the link with those words to a file."""
        return self._client.get(self._goal(self.page.link(name, inside).get("href", "")))

    def press(self, name: str, values: Values | None = None, *, inside: Element | None = None) -> HtmlPage:
        """Press the button with those words; `values` by label or `#id` are written, chosen or checked before."""
        return self._show(self.submit(name, values, inside=inside))

    def submit(self, name: str, values: Values | None = None, *, inside: Element | None = None) -> httpx2.Response:
        """The same where the answer is a file."""
        page = self.page
        button = page.button(name, inside)
        form = page.form_of(button)
        written = {page.field(label, form): value for label, value in (values or {}).items()}
        sent = [(field.get("name", ""), _sent(field, written)) for field in page.fields_of(form)]
        pairs = [(name, value) for name, value in sent if value is not None]
        if "name" in button.attrib:
            pairs.append((button.get("name", ""), button.get("value", "")))
        goal = self._goal(button.get("formaction") or form.get("action") or page.path)
        return self._send(button.get("formmethod") or form.get("method", "get"), goal, pairs)

    def _send(self, method: str, goal: str, pairs: list[tuple[str, str]]) -> httpx2.Response:
        sent = urlencode(pairs)
        if method.lower() == "get":
            return self._client.get(urlsplit(goal)._replace(query=sent, fragment="").geturl())
        headers = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/x-www-form-urlencoded"}
        return self._client.post(goal, content=sent, headers=headers)

    def _goal(self, address: str) -> str:
        return urljoin(self.page.path, address)

    def _show(self, response: httpx2.Response) -> HtmlPage:
        assert "text/html" in response.headers["content-type"], response.text
        self.page = HtmlPage(response)
        return self.page


def _sent(field: Element, all_written: Mapping[Element, str | bool]) -> str | None:
    """What a form sends of a field; None: nothing."""
    written = all_written.get(field)
    kind = field.get("type", "text")
    if kind in {"checkbox", "radio"}:
        return value_of(field) if _is_chosen(field, all_written) else None
    if kind in {"submit", "button", "reset", "image", "file"}:
        return None
    if written is None:
        return value_of(field)
    assert isinstance(written, str)
    if field.tag == "select":
        assert written in {each.get("value", text_of(each)) for each in field.iter("option")}, written
    return written


def _is_chosen(field: Element, all_written: Mapping[Element, str | bool]) -> bool:
    """A radio button is no longer chosen once another one of its name is."""
    if field in all_written:
        return bool(all_written[field])
    others = [each for each in all_written if each.get("type") == "radio" and each.get("name") == field.get("name")]
    return "checked" in field.attrib and not (field.get("type") == "radio" and others)
