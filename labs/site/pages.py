"""The pages of the site: each is one of the board's pages, with what was recorded in the place of the board."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import markdown

from app.board import create_board
from app.contract import labs
from labs.site.page import standalone
from labs.site.recordings import GUARDS, LEVELS, ROOT, graph_of, mistakes

STATIC = Path(__file__).with_name("static")
OWN = "/site/static/"
STYLE = f'  <link rel="stylesheet" href="{OWN}site.css">\n'
FILES = {  # of each page, by its path on the board; "/" is what leads back
    "/": "index.html",
    "/steps": "scheduler.html",
    "/scenes": "holder.html",
    "/schedules": "schedules.html",
    "/mistakes": "mistakes.html",
}
FILE = re.compile(r"\[([^]\n]*)\]\((?!#|https?:)[^)\n]*\)")  # a link to one of the repository
TABLES = {"en": "table.md", "zh-CN": "table.zh-CN.md"}


class NoPage(Exception):
    """A lab was deleted, or nothing was recorded for it."""


class Site:
    """Makes the pages."""

    def __init__(self, recordings: Path) -> None:
        self.recordings = recordings  # the folder with what was recorded, see `labs.site.recordings`
        self._board = create_board().test_client()
        cards = (self.watch, self.scheduler, self.holder, self.schedules, self.mistakes, self.libraries)
        self._cards = {make.__name__: make for make in cards}

    def read(self, url: str) -> str:
        """A file of this lab, or what the board serves; raises NoPage if there is nothing."""
        if url.startswith(OWN):
            return (STATIC / url.removeprefix(OWN)).read_text(encoding="utf-8")
        response = self._board.get(url)
        if response.status_code != 200:
            raise NoPage(f"The board has no {url}.")
        return response.text

    def pages(self) -> dict[str, str]:
        """The text of each page, by the name of its file; a page whose lab was deleted is left out."""
        made = {}
        for name, make in self._cards.items():
            with suppress(NoPage):
                made[f"{name}.html"] = make(name)
        return {"index.html": self.index(made), **made}

    def index(self, made: Mapping[str, str]) -> str:
        """The first page, with a card for each that was made."""
        cards = [name.removesuffix(".html") for name in made]
        sales = [
            {name: each[name] for name in ("guard", "stock", "buyers")}
            | {"orders": sorted(row["at_ms"] for row in each["ledger"])}
            for each in self._records()
        ]
        return self._page(self.read(f"{OWN}index.html"), {"cards": cards, "sales": sales})

    def watch(self, name: str) -> str:
        """The board's page of a record, without what starts a rush."""
        board = self.read("/")
        head, main = board[: board.index("<body")], board[board.index("  <main") :]
        html = head.replace("/static/main.js", f"{OWN}watch.js") + self.read(f"{OWN}watch.html") + main
        return self._page(html, {"card": name, "records": self._records()})

    def holder(self, name: str) -> str:
        """The page of the scenes, with one of them."""
        html = self.read("/scenes")
        answers = {"/scenes/static/texts.json": json.loads(self.read("/scenes/static/texts.json"))}
        return self._page(html, {"card": name, "answers": answers, "film": self._json("scene.json")}, before="scene.js")

    def scheduler(self, name: str) -> str:
        return self._stepped("/steps", name, self._graphs(LEVELS))

    def mistakes(self, name: str) -> str:
        return self._stepped("/steps", name, self._graphs(mistakes()))

    def schedules(self, name: str) -> str:
        return self._stepped("/schedules", name, self._graphs([*LEVELS, *mistakes()]))

    def libraries(self, name: str) -> str:
        """The table of the libraries as it stands in the repository; it says itself when it was made."""
        folder = ROOT / "labs/libraries"
        if not folder.exists():
            raise NoPage("There is no table of libraries.")
        tables = [_document(language, (folder / file).read_text(encoding="utf-8")) for language, file in TABLES.items()]
        html = self.read(f"{OWN}libraries.html").replace("<!-- the table in each language -->", "\n".join(tables))
        return self._page(html, {"card": name, "made": None})

    def _stepped(self, path: str, name: str, graphs: Mapping[str, str]) -> str:
        """A page of labs/steps, which plays from graphs."""
        html = self.read(path)
        if not graphs:
            raise NoPage(f"Nothing was recorded for {name}.")
        return self._page(html, {"card": name, "graphs": graphs, "lab_texts": labs.texts()}, before="graphs.js")

    def _graphs(self, names: Iterable[str]) -> dict[str, str]:
        """The texts of those of these guards that were recorded."""
        paths = {name: self.recordings / graph_of(name) for name in names}
        return {name: path.read_text(encoding="utf-8") for name, path in paths.items() if path.exists()}

    def _page(self, html: str, data: Mapping[str, Any], *, before: str = "") -> str:
        if STYLE not in html:
            html = html.replace("</head>", f"{STYLE}</head>")
        scripts = [f"{OWN}{before}"] if before else []
        if card := data.get("card"):  # the title is there before any script runs: a slow phone shows it at once
            [title] = re.findall(rf'^  {card}: \["([^"]+)"', self.read(f"{OWN}texts.js"), re.MULTILINE)
            html = re.sub(r"(<title>|<h1 data-text=\"title\">)[^<]*", rf"\g<1>{title}", html)
        made = self._records()[0]["started"]
        shown = {"pages": FILES, "mistakes": mistakes(), "made": made, **data}
        return standalone(html, self.read, data=shown, before=scripts, after=[f"{OWN}links.js"])

    def _records(self) -> list[Any]:
        return [self._json(f"records/{guard}.json") for guard in GUARDS]

    def _json(self, name: str) -> Any:
        return json.loads((self.recordings / name).read_text(encoding="utf-8"))


def _document(language: str, text: str) -> str:
    """A document as HTML, without its title, the link to the other language, and links to files of the repository."""
    body = text.partition("\n\n")[2].partition("\n\n")[2]
    lines = [line for line in body.splitlines() if line.startswith("|") or not FILE.search(line)]
    html = markdown.markdown(FILE.sub(r"\1", "\n".join(lines)), extensions=["tables", "fenced_code", "sane_lists"])
    html = re.sub(r"(<table>.*?</table>)", r'<div class="scroll" tabindex="0">\1</div>', html, flags=re.DOTALL)
    return f'<article class="document" lang="{language}">\n{html}\n</article>'
