"""The page of a result, in two languages: a document of ``templates/``, filled with what was seen and promised."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from labs.libraries.cases import CASES, COLUMNS
from labs.libraries.cases.case import CellAnswer
from labs.libraries.catalogue import ADAPTERS, LIBRARIES
from labs.libraries.result import VARIES, CaseRun, LibraryRow, LibraryTable

HERE = Path(__file__).parent
WORDS = json.loads((HERE / "words.json").read_text(encoding="utf-8"))
PROMISES = json.loads((HERE / "promises.json").read_text(encoding="utf-8"))
DOCUMENTS = {"en": "table.md", "zh": "table.zh-CN.md"}
NO, PARTLY, BY_HAND, BLOCKS, YES, NOT_OFFERED, FIGURE = (answer.value for answer in CellAnswer)
EXPLAINED = (NO, PARTLY, BY_HAND, BLOCKS, VARIES)
_TIMES = ("killed", "deleted")  # columns whose answer is a time as well
_MOST_EVENTS = 14


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
    """The words of a cell; in brackets where nothing is promised."""
    cell = row.cells.get(column)
    if cell is None or not cell.runs:
        return words.say("answers", "")
    if cell.observed == FIGURE:
        return words.seen(row, column)
    text = words.say("answers", cell.observed)
    if cell.observed == YES:
        if column in _TIMES and cell.shown and "s" in cell.shown.finding.about:
            text += f", {cell.shown.finding.about['s']:.1f} s"
        for server, qualified in WORDS["qualified"].get(column, {}).items():
            text += qualified[words.language] if server in row.server else ""
    claimed = PROMISES.get(row.library, {}).get("promises", {}).get(column, ["disclaims"])[0] == "claims"
    return text if claimed or cell.observed in (NOT_OFFERED, BLOCKS) else f"({text})"


def is_explained(row: LibraryRow, column: str) -> bool:
    """Whether the page says what happened: in each cell but *yes*, *not offered* and figures."""
    return column in row.cells and row.cells[column].observed in EXPLAINED


def answers(table: LibraryTable, words: Words) -> dict[str, str]:
    """The rows that answer each question of one who chooses, by the name of its place in the document."""
    tried = [row for row in table.rows if not row.missing]

    def those(condition: Callable[[dict[str, str]], bool]) -> str:
        found = []
        for name, ways in groupby(tried, key=lambda row: row.library):
            rows = list(ways)
            fit = [row for row in rows if condition({column: cell.observed for column, cell in row.cells.items()})]
            found += [name] if len(fit) == len(rows) else [row.name for row in fit]
        return words.listed(found)

    def all_of(*columns: str, among: Sequence[str] = (YES,)) -> Callable[[dict[str, str]], bool]:
        return lambda observed: all(observed.get(column) in among for column in columns)

    servers: dict[str, list[str]] = {}
    for row in tried:
        server = re.sub(r"^\d+ x | [\d.]+$", "", row.server).replace("Valkey", "Redis")
        servers[server] = [*dict.fromkeys([*servers.get(server, []), row.library])]
    alone = all_of("exclusion", "body", "late_release", "restart_held", among=(YES, NOT_OFFERED, BLOCKS))
    return {
        "alone": those(alone),
        "renewed": those(all_of("renewal", "killed")),
        "by_hand": those(lambda observed: observed.get("renewal") == BY_HAND),
        "token": those(all_of("token")),
        "told": those(all_of("woken", "deleted")),
        "blocks": those(lambda observed: observed.get("woken") == BLOCKS),
        "servers": words.say("page", "semicolon").join(
            f"{server}{words.say('page', 'colon')}{words.listed(names)}" for server, names in servers.items()
        ),
    }


def markdown(table: LibraryTable, language: str) -> str:
    """The page as Markdown."""
    words = Words(language)
    machine = [str(table.machine[key]) for key in ("processor", "system") if key in table.machine]
    document = (HERE / "templates" / DOCUMENTS[language]).read_text(encoding="utf-8")
    return document.format(
        count=len({row.library for row in table.rows}),
        machine=", ".join(machine),
        table="\n".join(_table(table, words)),
        explained="\n".join(_explained(table, words)),
        promises="\n".join(_promises(table, words)),
        **answers(table, words),
    )


def command_for(library: str, column: str) -> str:
    """What tries this cell again."""
    case = next(case.name for case in CASES if column in case.columns)
    return f"make libraries ARGS=\"--only '{library}' --cases {case}\""


def anchor(row: LibraryRow, column: str) -> str:
    """Where a cell is explained."""
    return re.sub(r"[^a-z0-9]+", "-", f"{row.name} {column}".lower()).strip("-")


def _table(table: LibraryTable, words: Words) -> Iterator[str]:
    ends = ("version", "server", "tried")
    heads = [words.say("page", "library"), *map(words.column, COLUMNS), *(words.say("page", end) for end in ends)]
    yield "| " + " | ".join(heads) + " |"
    yield "|---" * len(heads) + "|"
    for _, ways in groupby(table.rows, key=lambda row: row.library):
        rows = list(ways)
        name = words.say("page", "comma").join(_named(row) for row in rows)
        if missing := next((row.missing for row in rows if row.missing), ""):
            missing = words.say("page", "missing", reason=missing.replace("|", "/"))
            yield f"| {name} | {missing} |" + " |" * (len(heads) - 2)
            continue
        cells = [_both(rows, [_linked(words, row, column) for row in rows]) for column in COLUMNS]
        days = sorted({cell.day for row in rows for cell in row.cells.values()})
        versions = _both(rows, [row.version for row in rows])
        yield "| " + " | ".join([name, *cells, versions, rows[0].server, " / ".join(days[:1] + days[1:][-1:])]) + " |"


def _named(row: LibraryRow) -> str:
    """Its name, which leads to its adapter."""
    adapter = next((each.adapter for each in LIBRARIES if each.name == row.name), None)
    return f"[**{row.name}**]({ADAPTERS.name}/{adapter})" if adapter else f"**{row.name}**"


def _both(rows: Sequence[LibraryRow], texts: Sequence[str]) -> str:
    """One text where all ways have the same, else each with its way."""
    if len({re.sub(r"\]\(.*?\)", "", text) for text in texts}) == 1:
        return texts[0]
    return "<br>".join(f"{row.way}: {text}" for row, text in zip(rows, texts, strict=True))


def _linked(words: Words, row: LibraryRow, column: str) -> str:
    text = cell_text(words, row, column)
    return f"[{text}](#{anchor(row, column)})" if is_explained(row, column) else text


def _explained(table: LibraryTable, words: Words) -> Iterator[str]:
    for row in table.rows:
        for column in COLUMNS:
            if is_explained(row, column):
                yield from _happened(row, column, words)


def _happened(row: LibraryRow, column: str, words: Words) -> Iterator[str]:
    """A sentence; where two held or one waits in vain, what each did and when."""
    cell = row.cells[column]
    title = words.say("page", "of", library=row.name, column=words.column(column))
    yield f'<a id="{anchor(row, column)}"></a>**{title}**{words.say("page", "colon")}{words.seen(row, column)}\n'
    if cell.observed != NO or cell.shown is None:
        return
    events = cell.shown.events
    yield "```text"
    for event in events if len(events) <= _MOST_EVENTS else [*events[: _MOST_EVENTS - 4], *events[-4:]]:
        yield f"{event.at_s:7.2f} s  {event.actor:<8} {words.say('events', event.what, **event.about)}"
    yield f"\n{command_for(row.library, column)}\n```\n"


def _promises(table: LibraryTable, words: Words) -> Iterator[str]:
    for name, ways in groupby(table.rows, key=lambda row: row.library):
        about: dict[str, Any] = PROMISES.get(name, {"pages": {}, "promises": {}})
        note = f". {about['note']}" if "note" in about else ""
        yield f"**{name}** {next(ways).version}{note}\n"
        pages = {key: f"[{title}]({url})" if url else title for key, (title, url) in about["pages"].items()}
        for column, (verb, quote, page) in about["promises"].items():
            colon = words.say("page", "colon")
            yield f"- *{words.column(column)}*, {words.say('page', verb)}{colon}\u201c{quote}\u201d ({pages[page]})"
        yield f"- {words.say('page', 'no_claim', pages=words.listed(list(pages.values())))}\n"
