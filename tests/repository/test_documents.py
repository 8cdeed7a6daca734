"""README.md and docs/ are true, in English and Chinese: commands run, pictures exist, the tutorial ends as it shows."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click
import pytest
import redis
import yaml

from app import create_app
from app.contract.outcomes import Outcome, Promise
from app.guards import guards
from loadtest.cli.main import cli
from loadtest.ports import free_port
from loadtest.results.answer import Answer
from loadtest.results.audit import Audit
from loadtest.results.comparison import DEMO_GUARDS, Comparison, GuardRun
from loadtest.stack.servers import Etcd, Redis
from loadtest.terminal import comparison_table
from scripts import readme
from tests.support.terminal import printed

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("labs/*/*.md")} - {ROOT / "CHANGELOG.md"})
needs_labs = pytest.mark.skipif(not (ROOT / "labs").is_dir(), reason="the labs were deleted")


def page(name: str) -> str:
    return (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")


def words(line: str) -> str:
    """A line without its layout and with every number alike."""
    return re.sub("^-+$", "-", re.sub(r"\d+(\.\d+)?", "N", " ".join(line.split())))


def a_run(guard: str) -> GuardRun:
    answer = Answer("buyer", Outcome.SOLD_OUT, "shop", waited_ms=1.0)
    verdict = Audit(0, 0, [], [answer]).verdict()
    run = GuardRun.of(guard, guards()[guard].promise, verdict, stock_left=0, answers=[answer])
    return run if run.promise != Promise.NONE else replace(run, findings={"oversold": 200})


def test_the_demo_is_shown_as_it_prints_today() -> None:
    """README's run has today's default guards, columns, verdicts and last lines; only the figures are its own."""
    shown = [words(line) for line in readme.part("demo", README).splitlines()]
    start = next(number for number, line in enumerate(shown) if line.startswith("N buyers, N items"))
    end = next(number for number, line in enumerate(shown) if line.startswith("Every promise was kept."))
    runs = [a_run(guard) for guard in DEMO_GUARDS]
    today = printed(comparison_table(Comparison(300, 500, "", {}, runs), width=80, plain=True)).splitlines()
    assert shown[start + 1 : end] == [words(line) for line in today[1:]]
    assert shown[end] == "Every promise was kept. Without a lock, N of N items were sold."
    assert shown[end + 1].startswith("Report: reports/")
    assert shown[1:3] == ["$ make demo", "Ready: etcd, redis, instance-N, instance-N"]


def test_the_table_of_guards_is_generated() -> None:
    """Every guard of the shop has its description and promise; a part that is missing is an error."""
    assert readme.part("guards", page("guards")) == readme.guards_table()
    with pytest.raises(ValueError, match="'weather'"):
        readme.part("weather", README)


def test_every_route_is_described() -> None:
    """docs/http-api.md and the labs' READMEs list all routes of the shop, and no others; the description its guards."""
    routes = create_app().url_map.iter_rules()
    rules = {(min((rule.methods or set()) - {"HEAD"}), rule.rule.replace("<id>", "ID")) for rule in routes}
    labs = [path.parent / "README.md" for path in ROOT.glob("labs/*/shop.py")]
    text = "".join([page("http-api"), *(path.read_text(encoding="utf-8") for path in labs)])
    rows = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    assert set(re.findall(r"`(GET|POST|DELETE) (/[a-zID/]*)", rows)) == rules
    paths = yaml.safe_load((ROOT / "docs/openapi.yaml").read_text(encoding="utf-8"))["paths"]
    (parameter,) = [each for each in paths["/stock/reduce"]["post"]["parameters"] if each.get("name") == "guard"]
    assert parameter["schema"]["enum"] == [
        name for name, guard in guards().items() if guard.__module__.startswith("app.")
    ]


def anchors(document: Path) -> list[str]:
    """The headings of a document as links name them, and the names that it gives to places itself."""
    text = document.read_text(encoding="utf-8")
    headings = [re.sub(r"[^\w\- ]", "", title.lower()) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return [*(title.replace(" ", "-") for title in headings), *re.findall(r'\bid="([^"]+)"', text)]


@needs_labs
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_what_a_document_names_exists(document: Path) -> None:
    """Files and headings that are linked; files that are named without a link, but for those that a reader writes."""
    text = document.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\((?!http)([^)#\s]*)#?([^)\s]*)\)", text):
        linked = document.parent / target if target else document
        assert linked.exists(), target
        if anchor:
            assert anchor in anchors(linked), f"{target}#{anchor}"
    named = set(re.findall(r"`((?:app|deploy|labs|lock|loadtest|scripts|tests)/[\w./-]+\.\w+)`", text))
    to_be_written = {"app/guards/homemade.py"} | {name for name in named if "NAME" in name}
    assert [name for name in sorted(named - to_be_written) if not (ROOT / name).exists()] == []


MAKEFILES = [ROOT / "Makefile", *ROOT.glob("labs/*/targets.mk")]


def words_of(command: str) -> list[str]:
    """A ``make`` command as a name and what follows ARGS=."""
    target, *settings = shlex.split(command.removeprefix("make "))
    return [target, *(word for each in settings for word in shlex.split(each.removeprefix("ARGS=")))]


def commands(text: str) -> list[list[str]]:
    """Each ``make`` command of a text, on a line of its own or quoted."""
    found = re.findall(r"^(?:\$ )?(make [^#\n]*?) *(?:#.*)?$|`(make [^`]*)`", text, re.MULTILINE)
    return [words_of(first or second) for first, second in dict.fromkeys(found)]


@needs_labs
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_command_can_be_run(document: Path) -> None:
    """Its target exists; if it runs a command of ours, scenarios, guards and options are accepted."""
    makefiles = "".join(path.read_text(encoding="utf-8") for path in MAKEFILES)
    for name, *arguments in commands(document.read_text(encoding="utf-8")):
        assert re.search(rf"^(?:[a-z -]* )?{name}(?: [a-z -]*)?:", makefiles, re.MULTILINE), name
        command = cli.get_command(click.Context(cli), name)
        if command is not None and "homemade" not in arguments and "NAME" not in arguments:
            with suppress(click.exceptions.Exit):  # --help
                command.make_context(name, arguments)


IMAGES = ROOT / "docs/images"
LARGEST = {".png": 200_000, ".svg": 200_000, ".webp": 2_000_000}  # bytes; only the moving ones are WebP


def test_every_picture_is_shown_and_small() -> None:
    """None is missing, none is left over, none is heavy."""
    named = r'(?:src|srcset)="([^"]+\.(?:png|svg|webp))"'
    found = [(path.parent, re.findall(named, path.read_text(encoding="utf-8"))) for path in DOCUMENTS]
    assert {(folder / name).resolve() for folder, names in found for name in names} == set(IMAGES.iterdir())
    assert {path.name for path in IMAGES.iterdir() if path.stat().st_size > LARGEST[path.suffix]} == set()


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """Every page of docs/ is on it and in its navigation, as GitHub shows it; a dead link would end the build."""
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(site)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert (built.returncode, built.stderr) == (0, "")
    pages = {path.stem for path in site.glob("*.html")} - {"404"}
    beside = {"readme", "readme.zh-CN", "changelog", "contributing", "security"}
    assert pages == beside | {path.stem for path in ROOT.glob("docs/*.md")}
    reference = (site / "reference.html").read_text(encoding="utf-8")
    assert 'id="lock.Mutex.acquire"' in reference
    assert '<ol start="11">' in (site / "pitfalls.html").read_text(encoding="utf-8"), "one numbering over all chapters"
    assert "<code>workshop</code>" in (site / "readme.html").read_text(encoding="utf-8"), "Markdown in an HTML table"


# docs/tutorial.md: it quotes the files beside it, and its commands sell and oversell as it shows.


ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
STEPS = re.findall(r"^```sh\n(python .*?)^```\n\n```text\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def verdicts(output: str) -> list[str]:
    """The lines in order of name, each number alike but those of an exact sale; bob and ada may answer in any order."""
    lines = [line for line in output.splitlines() if "Terminated" not in line]  # which the shell says of a server
    return sorted(line if line.startswith("EXACT") else re.sub(r"\d+", "N", line) for line in lines)


def test_the_page_shows_the_files_as_they_are() -> None:
    """Each Python file beside the page is linked, and quoted in part; the scripts that click are linked."""
    quoted = re.findall(r"\[`([\w.]+)`\]\(tutorial/\1\):\n\n```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    files = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs/tutorial").glob("*.py")}
    assert {name for name, part in quoted if part in files[name]} == files.keys()
    assert len(quoted) == len(files) == TEXT.count("```python")
    assert all(f"](tutorial/{path.name})" in TEXT for path in (ROOT / "docs/tutorial").glob("*.sh"))
    assert len(STEPS) == 6


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.skipif(not shutil.which("curl"), reason="there is no curl, by which the page's buyers click")
@pytest.mark.timeout(300)
def test_the_steps_end_as_the_page_shows(etcd: Etcd, redis_server: Redis) -> None:
    """Pasted into one shell, one after the other, each step's commands print the verdict on the page."""
    commands = "echo ---\n".join(commands for commands, _ in STEPS)
    first, second = str(free_port()), str(free_port())
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    servers = {"REDIS_URL": redis_server.url, "ETCD": etcd.endpoint}
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **servers}
    shell = subprocess.Popen(
        ["sh", "-c", commands.replace("5001", first).replace("5002", second)], cwd=ROOT, env=env,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = shell.communicate(timeout=250)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)  # whatever is left, also where a step has failed
        shell.wait()
        with redis.Redis.from_url(redis_server.url) as store:
            store.delete("{tutorial}:stock", "{tutorial}:orders", "{tutorial}:fence")
    assert [verdicts(each) for each in output.split("---\n")] == [verdicts(shown) for _, shown in STEPS], output
