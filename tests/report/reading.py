"""Reads a page back as a browser would, strictly enough to notice markup that is not closed."""

import json
from html.parser import HTMLParser
from typing import Any

_VOID = {"meta", "link", "br", "hr", "img", "input"}
_ALIKE = {"script", "style"}


class Reader(HTMLParser):
    """Collects elements (tag, attributes), the text, and the contents of script and style."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self.raw: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"attribute twice in <{tag}>"
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        inside = bool(self.open) and self.open[-1] in _ALIKE
        (self.raw if inside else self.text).append(data)

    def having(self, **wanted: str) -> list[dict[str, str]]:
        return [
            attributes
            for _, attributes in self.elements
            if all(attributes.get(name) == value for name, value in wanted.items())
        ]

    def tagged(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def all_text(self) -> str:
        return "".join(self.text)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == [], f"left open: {reader.open}"
    return reader


def panel_data(page: str) -> Any:
    """The JSON that the page's script reads."""
    _, _, rest = page.partition('<script type="application/json" id="passage-data">')
    return json.loads(rest.partition("</script>")[0])
