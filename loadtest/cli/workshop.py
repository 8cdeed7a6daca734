"""`workshop`: docs/workshop.md step by step in one window, without copy and paste."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, MarkdownElement, Paragraph
from rich.rule import Rule
from rich.text import Text

from loadtest import REPOSITORY
from loadtest.cli.kept_screen import run_and_keep
from loadtest.cli.main import cli
from loadtest.terminal import ask, console, wrapped

PAGES = {"en": REPOSITORY / "docs/workshop.md", "zh": REPOSITORY / "docs/workshop.zh-CN.md"}
PROMPTS = {
    "en": (
        "Enter: run · s: skip · b: back · q: quit",
        "Enter: answer · r: run again · b: back · q: quit",
        "Enter: next · r: run again · b: back · q: quit",
    ),
    "zh": (
        "回车: 运行 · s: 跳过 · b: 上一步 · q: 退出",
        "回车: 答案 · r: 再运行一次 · b: 上一步 · q: 退出",
        "回车: 下一步 · r: 再运行一次 · b: 上一步 · q: 退出",
    ),
}
ANSWER = r"(?<=\?) (?=\()|(?<=\uff1f)(?=\uff08)"  # begins in brackets behind a question mark, also behind a Chinese one
MISSING = {
    "en": "{} is left out: `{}` is a command of a lab that is not here.",
    "zh": "跳过 {}: `{}` 属于未安装的实验。",
}
BESIDES = 3  # lines around a text: one above, one below, and the prompt
SPEAKING = ("demo", "faults", "scene")  # the commands that have the option --language
ENDED = {"en": "The command ended with exit code {}.", "zh": "命令以退出码 {} 结束。"}


@dataclass(frozen=True)
class Step:
    """One step of the page.

    Attributes:
        title: the heading.
        before: the text before the command, as Markdown.
        command: as typed, such as ``make demo ARGS="--guard none"``.
        after: the text after it, as Markdown, cut before each answer to a question.
    """

    title: str
    before: str
    command: str
    after: Sequence[str]

    @property
    def words(self) -> list[str]:
        """The arguments for python -m loadtest."""
        target, *settings = shlex.split(self.command.removeprefix("make "))
        return [target, *(word for each in settings for word in shlex.split(each.removeprefix("ARGS=")))]


def steps_of(page: Path) -> list[Step]:
    """The numbered chapters of a page: text, the command with its output, text."""
    chapters = re.split(r"^## (?=\d+\. )", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return [_step(chapter.split("\n## ")[0]) for chapter in chapters]


def _step(chapter: str) -> Step:
    title, text = chapter.split("\n", 1)
    before, output, after = re.split(r"<!-- \w+: generated -->\n(.*?)<!-- end -->", text, maxsplit=1, flags=re.DOTALL)
    found = re.search(r"^\$ (make .*)$", output, re.MULTILINE)
    assert found is not None, title
    return Step(title, _spoken(before), found[1], re.split(ANSWER, _spoken(after)))


def _spoken(text: str) -> str:
    """The text without pictures and comments; where Chinese goes on in the next line, there is no space."""
    text = re.sub(r"<picture>.*?</picture>|<!-- .*? -->", "", text, flags=re.DOTALL).strip()
    return re.sub(r"(?<=[\u3001-\uffef])\n(?=[^\s|<#-])", "", text)


class _Paragraph(Paragraph):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield wrapped(self.text, options.max_width)


class _Page(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "paragraph_open": _Paragraph}


@click.command()
@click.option("--language", type=click.Choice(list(PAGES)), default="en", show_default=True, help="Of the texts.")
def workshop(language: str) -> None:
    """Lead a room through the workshop, one step at a time."""
    screen = console()
    steps = list(_playable(steps_of(PAGES[language]), language, screen))
    run, reveal, go_on = PROMPTS[language]
    place = 0
    while place < len(steps):
        step = steps[place]
        screen.clear()
        title = Rule(f"{step.title}  ({place + 1}/{len(steps)})", align="left")
        screen.print(title, _Page(step.before), "", f"[bold]$ {step.command}[/]", "")
        answer = _asked(screen, run)
        while answer in ("", "r"):
            kept = _run(step, language, screen)
            for text, prompt in zip(step.after, [reveal] * (len(step.after) - 1) + [go_on], strict=True):
                _speak(text, kept, screen)
                if answer := _asked(screen, prompt):
                    break
            else:
                break
        if answer == "q":
            return
        place = max(place - 1, 0) if answer == "b" else place + 1


def _playable(steps: Sequence[Step], language: str, screen: Console) -> Iterator[Step]:
    """The steps whose commands are installed; says which are not."""
    known = cli.list_commands(click.get_current_context())
    for step in steps:
        if step.words[0] in known:
            yield step
        else:
            with suppress(EOFError):
                ask(screen, MISSING[language].format(step.title, step.command))


def _asked(screen: Console, prompt: str) -> str:
    """A letter of the prompt, or "" for Enter; the end of the input quits."""
    letters = {"", *re.findall(r"\b([a-z]):", prompt)}
    while True:
        try:
            answer = ask(screen, prompt).strip().lower()
        except EOFError:
            return "q"
        if answer in letters:
            return answer


def _run(step: Step, language: str, screen: Console) -> list[str]:
    """Run the command; its last lines. Ctrl-C ends the command, and not the workshop."""
    words, kept = [sys.executable, "-m", "loadtest", *step.words], list[str]()
    if language != "en" and step.words[0] in SPEAKING:
        words += ["--language", language]
    before = signal.signal(signal.SIGINT, lambda *_: None)  # the command has its own
    try:
        if screen.is_terminal:
            code, kept = run_and_keep(words, directory=REPOSITORY, width=screen.width, height=screen.height)
        else:
            code = subprocess.call(words, cwd=REPOSITORY)
    finally:
        signal.signal(signal.SIGINT, before)
    if code:
        ended = ENDED[language].format(code)
        screen.print(f"[red]{ended}[/]")
        kept += ["", ended] if kept else []
    return kept


def _speak(text: str, kept: list[str], screen: Console) -> None:
    """Show a text below what the command has left on the screen, as much of that as there is room for."""
    spoken = _Page(text)
    room = screen.height - len(screen.render_lines(spoken)) - BESIDES
    if kept:
        screen.clear()
        for line in kept[max(len(kept) - room, 0) :]:
            screen.print(Text.from_ansi(line), soft_wrap=True)
    screen.print("", spoken, "")
