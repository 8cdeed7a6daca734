"""A page as its reader finds it: parsed, so that tests judge what is shown and not how it is written."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

_VOID = {"meta", "link", "img", "br", "input", "hr"}


class Page(HTMLParser):
    """A page.

    Attributes:
        tags: of all elements, with their attributes, in order.
        charts: texts in each drawing.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._cells: list[list[str]] = []
        self.charts: list[list[str]] = []
        self._texts: list[tuple[tuple[str, ...], str]] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == [], "an element is not closed"

    @classmethod
    def read(cls, path: Path) -> Page:
        return cls(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)
        if tag == "tr":
            self._cells.append([])
        elif tag in ("td", "th"):
            self._cells[-1].append("")
        elif tag == "svg":
            self.charts.append([])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self._texts.append((tuple(self._open), data))
        if "svg" in self._open and data.strip():
            self.charts[-1].append(data)
        elif {"td", "th"} & set(self._open):
            self._cells[-1][-1] += data

    @property
    def rows(self) -> list[list[str]]:
        """The text of the cells of each table row."""
        return [[" ".join(cell.split()) for cell in row] for row in self._cells]

    def text(self, tag: str | None = None) -> str:
        """What can be read in all elements of this kind, or in the whole page."""
        inside = [data for opened, data in self._texts if "style" not in opened and (tag is None or tag in opened)]
        return " ".join("".join(inside).split())

    def row(self, *first: str) -> list[str]:
        """The first table row that begins with these cells."""
        return next(row for row in self.rows if row[: len(first)] == list(first))
