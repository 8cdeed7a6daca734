"""Pages from templates: one file each, complete, to be opened from disk without a network.

The templates escape all text, such as the names of buyers, instances and files.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from loadtest.language import ENGLISH, heading_in, known_in, sale_in, text_in, verdict_in

TEMPLATES = Path(__file__).with_name("templates")
DASH = "\N{EN DASH}"


def render(template: str, *, folder: Path = TEMPLATES, language: str = ENGLISH, **context: Any) -> str:
    """A page from a template, which is here or in the `folder` of a lab; its texts are in the `language`."""
    return _environment(folder, language).get_template(template).render(**context)


@cache
def _environment(folder: Path, language: str) -> Environment:
    loader = FileSystemLoader([folder, TEMPLATES])
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "count": _count,
        "seconds": _seconds,
        "day": _day,
        "sentence": lambda message: message.in_language(language),
        "translated": partial(known_in, language),
        "verdict": partial(verdict_in, language),
        "machine": _machine,
    }
    environment.globals |= {"language": language, "say": partial(_say, language), "sale": partial(sale_in, language)}
    environment.globals["heading"] = partial(heading_in, language)
    return environment


def _say(language: str, key: str, **values: object) -> Markup:
    """A text of the table, which may have markup; its values are escaped."""
    safe = {name: value if isinstance(value, (int, float)) else escape(value) for name, value in values.items()}
    return Markup(text_in(language, key, **safe))


def _count(number: float | None) -> str:
    return DASH if number is None else f"{number:,.0f}"


def _seconds(number: float) -> str:
    return f"{number:.2f}" if number < 10 else f"{number:.1f}"


def _day(time: str) -> str:
    return time.replace("T", " ").replace("+00:00", " UTC")


def _machine(about: Mapping[str, Any]) -> str:
    words = [about.get("processor"), about.get("system"), about.get("machine")]
    cpus = [f"{about['cpus']} CPUs"] if "cpus" in about else []
    return ", ".join(cpus + [str(word) for word in words if word]) or "not recorded"
