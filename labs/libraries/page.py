"""The page of a result: Markdown in two languages for the repository, and HTML with charts beside the result."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from labs.libraries.cases import CASES, COLUMNS
from labs.libraries.cases.case import CellAnswer
from labs.libraries.catalogue import ADAPTERS, LIBRARIES
from labs.libraries.lanes import lane_chart, text_lanes, told_events
from labs.libraries.promises import note_of, pages_of, promises_of
from labs.libraries.result import Cell, LibraryRow, LibraryTable
from loadtest.language import ENGLISH, joined_in, text_in
from loadtest.report.charts.vega import chart_svg
from loadtest.report.render import render

HERE = Path(__file__).parent
WORDS = json.loads((HERE / "words.json").read_text(encoding="utf-8"))
DOCUMENTS = {"en": "table.md", "zh": "table.zh-CN.md"}
_TIMES = ("killed", "deleted")  # columns whose answer is a time as well
_FIGURES = ("waiters", "speed")


class Words:
    """The texts of ``words.json`` in a language."""

    def __init__(self, language: str) -> None:
        self.language = language

    def page(self, key: str, **values: object) -> str:
        return str(WORDS["page"][self.language][key].format(**values))

    def column(self, column: str, part: int) -> str:
        """Its heading (0), its title (1), what is done (2), and why (3)."""
        return str(WORDS["columns"][column][self.language][part])

    def seen(self, cell: Cell) -> str:
        """What was seen, as a sentence."""
        run = cell.shown
        return self._filled("seen", run.finding.seen, run.finding.about) if run else cell.failed

    def event(self, what: str, about: dict[str, Any]) -> str:
        return self._filled("events", what, about)

    def listed(self, names: Sequence[str]) -> str:
        return self.page("comma").join(names)

    def answer(self, observed: str) -> str:
        return str(WORDS["answers"][self.language][observed])

    def _filled(self, part: str, key: str, values: dict[str, Any]) -> str:
        return str(WORDS[part][key][self.language].format(**values))


def cell_text(words: Words, library: str, column: str, cell: Cell | None) -> str:
    """The words of a cell; in brackets where nothing is promised."""
    if cell is None or not cell.runs:
        return words.answer("")
    if cell.observed == CellAnswer.FIGURE.value:
        return words.seen(cell)
    text = words.answer(cell.observed)
    run = cell.shown
    if column in _TIMES and run and cell.observed == CellAnswer.YES.value and "s" in run.finding.about:
        text += f", {run.finding.about['s']:.1f} s"
    promise = promises_of(library).get(column)
    return text if promise is not None and promise.claims else f"({text})"


def choices(table: LibraryTable, words: Words) -> Iterator[str]:
    """The questions of one who chooses, each with the rows whose cells answer it."""
    tried = [row for row in table.rows if not row.missing]

    def rows(columns: Sequence[str]) -> str:
        answers = {row.name: {row.cells[column].observed for column in columns if column in row.cells} for row in tried}
        return words.listed([name for name, observed in answers.items() if observed == {CellAnswer.YES.value}]) or "-"

    def noes(row: LibraryRow) -> int:
        return sum(has_history(cell) for cell in row.cells.values())

    named = {name: rows(columns) for name, columns in WORDS["choose"]["columns"].items()}
    servers: dict[str, list[LibraryRow]] = {}
    for row in sorted(tried, key=noes):
        servers.setdefault(re.sub(r"^\d+ x | [\d.]+$", "", row.server).replace("Valkey", "Redis"), []).append(row)
    named["servers"] = words.page("semicolon").join(
        f"{server}{words.page('colon')}{words.listed([f'{row.name} ({noes(row)})' for row in found])}"
        for server, found in servers.items()
    )
    for text in WORDS["choose"][words.language]:
        yield str(text.format(**named))


def has_history(cell: Cell | None) -> bool:
    """Whether what happened is told: for a *no*, promised or not."""
    run = cell.shown if cell else None
    return run is not None and run.finding.answer is CellAnswer.NO


def command_for(library: str, column: str) -> str:
    """What tries this cell again."""
    case = next(case.name for case in CASES if column in case.columns)
    return f"make libraries ARGS=\"--only '{library}' --cases {case}\""


def anchor(library: str, column: str) -> str:
    """Where the history of a cell stands on the page."""
    return re.sub(r"[^a-z0-9]+", "-", f"{library} {column}".lower()).strip("-")


def markdown(table: LibraryTable, language: str) -> str:
    """The page as Markdown."""
    return "\n".join(_lines(table, Words(language)))


def _lines(table: LibraryTable, words: Words) -> Iterator[str]:
    say = words.page
    yield f"# {say('title')}\n\n{say('other')}\n"
    yield (
        say("lead", count=len(table.rows), day=table.started[:10], machine=about(table.machine))
        + "\n\n"
        + say("legend")
        + "\n"
    )
    yield f"## {say('choose')}\n"
    for number, answer in enumerate(choices(table, words), 1):
        yield f"{number}. {answer}"
    yield f"\n## {say('seen')}\n\n{say('correct')}\n"
    yield from _table(table, words)
    yield f"\n## {say('cases')}\n"
    for column in COLUMNS:
        yield f"**{words.column(column, 1)}** (*{words.column(column, 0)}*){say('colon')}{words.column(column, 2)}"
        yield words.column(column, 3) + "\n"
    yield f"## {say('histories')}\n"
    for row, column, cell in histories(table):
        yield from _history(row, column, cell, words)
    yield f"## {say('promises')}\n"
    for row in table.rows:
        yield from _promises(row, words)


def _table(table: LibraryTable, words: Words) -> Iterator[str]:
    heads = [words.page("library"), *(words.column(column, 0) for column in COLUMNS)]
    heads += [words.page("version"), words.page("server")]
    yield "| " + " | ".join(heads) + " |"
    yield "|---" * len(heads) + "|"
    for row in table.rows:
        if row.missing:
            missing = words.page("missing", reason=row.missing.replace("|", "/"))
            yield f"| {_named(row)} | {missing} |" + " |" * (len(heads) - 2)
            continue
        cells = [_linked(words, row, column) for column in COLUMNS]
        yield "| " + " | ".join([_named(row), *cells, row.version, row.server]) + " |"


def _named(row: LibraryRow) -> str:
    """Its name, which leads to its adapter."""
    library = LIBRARIES.get(row.name)
    return f"[**{row.name}**]({ADAPTERS.name}/{library.adapter})" if library else f"**{row.name}**"


def _linked(words: Words, row: LibraryRow, column: str) -> str:
    cell = row.cells.get(column)
    text = cell_text(words, row.name, column, cell)
    return f"[{text}](#{anchor(row.name, column)})" if has_history(cell) else text


def histories(table: LibraryTable) -> Iterator[tuple[LibraryRow, str, Cell]]:
    """Each cell whose history is told."""
    for row in table.rows:
        yield from ((row, column, row.cells[column]) for column in COLUMNS if has_history(row.cells.get(column)))


def _history(row: LibraryRow, column: str, cell: Cell, words: Words) -> Iterator[str]:
    run = cell.shown
    assert run is not None
    title = words.page("of", library=row.name, column=words.column(column, 0))
    yield f'<a id="{anchor(row.name, column)}"></a>\n\n### {title}\n\n{words.seen(cell)}\n\n```text'
    yield from text_lanes(run.events)
    yield ""
    for event in told_events(run.events):
        yield f"{event.at_s:7.2f} s  {event.actor:<8} {words.event(event.what, event.about)}"
    yield f"```\n\n`{command_for(row.name, column)}`\n"


def _promises(row: LibraryRow, words: Words) -> Iterator[str]:
    yield f"**{row.name}** {row.version}{'. ' if note_of(row.name) else ''}{note_of(row.name)}\n"
    for column, promise in promises_of(row.name).items():
        verb = words.page("claims" if promise.claims else "disclaims")
        yield f"- *{words.column(column, 0)}*, {verb}{words.page('colon')}\u201c{promise.quote}\u201d ({promise.page})"
    yield f"- {words.page('no_claim', pages=pages_of(row.name))}\n"


def about(machine: dict[str, Any]) -> str:
    """The machine in a few words."""
    return ", ".join(str(machine[key]) for key in ("processor", "system") if key in machine)


def inline(text: str) -> Markup:
    """A text of ``words.json`` for HTML: its backticks and asterisks become elements."""
    safe = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text)))
    safe = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", safe)
    return Markup(re.sub(r"\*([^*]+)\*", r"<em>\1</em>", safe))


def html(table: LibraryTable, language: str = ENGLISH) -> str:
    """The page as HTML, with the histories as charts."""
    words = Words(language)
    told = [
        {
            "id": anchor(row.name, column),
            "title": words.page("of", library=row.name, column=words.column(column, 0)),
            "seen": words.seen(cell),
            "chart": chart_svg(lane_chart(cell.shown.events, text_in(language, "axis.seconds"))),
            "events": [(event, words.event(event.what, event.about)) for event in told_events(cell.shown.events)],
            "command": command_for(row.name, column),
        }
        for row, column, cell in histories(table)
        if cell.shown
    ]
    return render(
        "libraries.html",
        folder=HERE / "templates",
        language=language,
        words=words,
        table=table,
        columns=COLUMNS,
        choices=[inline(answer) for answer in choices(table, words)],
        cell_text=partial(cell_text, words),
        has_history=has_history,
        anchor=anchor,
        histories=told,
        machine=about(table.machine),
        inline=inline,
        joined=partial(joined_in, language),
    )
