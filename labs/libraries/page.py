"""The page of a result, in two languages: a document of ``templates/``, filled with what was seen and promised."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from labs.libraries.cases import CASES, COLUMNS
from labs.libraries.cases.case import CellAnswer
from labs.libraries.catalogue import LIBRARIES
from labs.libraries.result import VARIES, CaseRun, Cell, LibraryRow, LibraryTable

HERE = Path(__file__).parent
WORDS = json.loads((HERE / "words.json").read_text(encoding="utf-8"))
PROMISES = json.loads((HERE / "promises.json").read_text(encoding="utf-8"))
DOCUMENTS = {"en": "table.md", "zh": "table.zh-CN.md"}
NO, PARTLY, BY_HAND, BLOCKS, YES, NOT_OFFERED, FIGURE = (answer.value for answer in CellAnswer)
EXPLAINED = (NO, PARTLY, BY_HAND, BLOCKS, VARIES)
_TIMES = ("killed", "deleted")  # columns whose answer is a time as well


class Words:
    """The texts of ``words.json`` in a language."""

    def __init__(self, language: str) -> None:
        self.language = language

    def say(self, part: str, key: str, **values: object) -> str:
        return str(WORDS[part][key][self.language].format(**values))

    def column(self, column: str) -> str:
        return self.say("columns", column)

    def listed(self, names: Sequence[str]) -> str:
        return self.say("page", "comma").join(names) or "-"

    def seen(self, row: LibraryRow, column: str) -> str:
        """What was seen, as a sentence; of a cell that varies, each time."""
        cell = row.cells[column]
        if cell.observed == VARIES:
            return self.say("page", "semicolon").join(self._seen(run) for run in cell.runs)
        return self._seen(cell.shown) if cell.shown else cell.failed

    def _seen(self, run: CaseRun) -> str:
        return self.say("seen", run.finding.seen, **run.finding.about)


def cell_text(words: Words, row: LibraryRow, column: str) -> str:
    """The words of a cell; in brackets if nothing is promised."""
    cell = row.cells.get(column)
    if cell is None or not cell.runs:
        return words.say("answers", "")
    if cell.observed == FIGURE:
        return words.seen(row, column)
    text = words.say("answers", cell.observed)
    if cell.observed == YES:
        if column in _TIMES and cell.shown and "s" in cell.shown.finding.about:
            text += f", {cell.shown.finding.about['s']:.1f} s"
        for of, qualified in WORDS["qualified"].get(column, {}).items():
            text += qualified[words.language] if of in f"{row.name} {row.server}" else ""
    about = PROMISES.get(row.name, PROMISES.get(row.library, {}))
    claimed = about.get("promises", {}).get(column, ["disclaims"])[0] == "claims"
    return text if claimed or cell.observed in (NOT_OFFERED, BLOCKS) else f"({text})"


def is_explained(row: LibraryRow, column: str) -> bool:
    """Whether the page says what happened: in each cell but *yes*, *not offered* and figures."""
    return column in row.cells and row.cells[column].observed in EXPLAINED


def answers(table: LibraryTable, words: Words) -> dict[str, str]:
    """The rows that answer each question of one who chooses, by the name of its place in the document."""
    libraries = _by_library([row for row in table.rows if not row.missing])

    def those(*columns: str, among: Sequence[str] = (YES,)) -> str:
        found = []
        for name, ways in libraries:
            seen = {way.name: {way.cells.get(column, Cell()).observed for column in columns} for way in ways}
            fit = [way for way, cells in seen.items() if cells <= {*among}]
            found += [name] if len(fit) == len(ways) else fit
        return words.listed(found)

    servers: dict[str, list[str]] = {}
    for name, ways in libraries:
        server = re.sub(r"^\d+ x | [\d.]+$", "", ways[0].server).replace("Valkey", "Redis")
        servers.setdefault(server, []).append(name)
    listed = [f"{server}{words.say('page', 'colon')}{words.listed(names)}" for server, names in servers.items()]
    lone = ("exclusion", "body", "late_release", "restart_held")
    return {
        "alone": those(*lone, among=(YES, NOT_OFFERED, BLOCKS)),
        "renewed": those("renewal", "killed"),
        "by_hand": those("renewal", among=(BY_HAND,)),
        "token": those("token"),
        "told": those("woken", "deleted"),
        "blocks": those("woken", among=(BLOCKS,)),
        "servers": words.say("page", "semicolon").join(listed),
    }


def markdown(table: LibraryTable, language: str) -> str:
    """The page as Markdown."""
    words, shown = Words(language), {name for row in table.rows for name in (row.name, row.library)}
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["link"] = lambda page: f"[{page[0]}]({page[1]})" if page[1] else page[0]
    return environment.get_template(DOCUMENTS[language]).render(
        words=words,
        page=partial(words.say, "page"),
        table=table,
        libraries=[ways for _, ways in _by_library(table.rows)],
        columns=COLUMNS,
        promises={name: PROMISES[name] for name in PROMISES if name in shown},
        answers=answers(table, words),
        machine=", ".join(str(table.machine[key]) for key in ("processor", "system") if key in table.machine),
        adapters={row.name: "" for row in table.rows} | {each.name: each.adapter for each in LIBRARIES},
        cell=lambda ways, column: each_way(ways, [_linked(words, way, column) for way in ways]),
        each_way=each_way,
        days=lambda ways: " / ".join(sorted({cell.day for way in ways for cell in way.cells.values()})),
        is_explained=is_explained,
        anchor=anchor,
        case_of=lambda column: next(case.name for case in CASES if column in case.columns),
    )


def anchor(row: LibraryRow, column: str) -> str:
    """Where a cell is explained."""
    return re.sub(r"[^a-z0-9]+", "-", f"{row.name} {column}".lower()).strip("-")


def each_way(ways: Sequence[LibraryRow], texts: Sequence[str]) -> str:
    """One text if it is the same for all ways to use a library, else each with its way."""
    if len({re.sub(r"\]\(.*?\)", "", text) for text in texts}) == 1:
        return texts[0]
    return "<br>".join(f"{way.way}: {text}" for way, text in zip(ways, texts, strict=True))


def _by_library(rows: Sequence[LibraryRow]) -> list[tuple[str, list[LibraryRow]]]:
    return [(name, list(ways)) for name, ways in groupby(rows, key=lambda row: row.library)]


def _linked(words: Words, row: LibraryRow, column: str) -> str:
    text = cell_text(words, row, column)
    return f"[{text}](#{anchor(row, column)})" if is_explained(row, column) else text
