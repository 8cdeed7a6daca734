"""Photograph a page in two languages, dark and light."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from PIL import Image
from playwright.sync_api import Browser, Page

PATIENCE_MS = 60_000
WIDTH, HEIGHT = 1280, 720
Scheme = Literal["dark", "light"]
ENGLISH, CHINESE = "en", "zh-CN"


@dataclass(frozen=True)
class View:
    """A page in one language and colour scheme."""

    locale: str
    scheme: Scheme
    page: Page


@dataclass(frozen=True)
class Camera:
    """Takes the pictures that the documents show, into a directory."""

    browser: Browser
    directory: Path

    @contextmanager
    def views(self, url: str, *, locales: Sequence[str] = (ENGLISH,)) -> Iterator[list[View]]:
        """The page at `url`, open in each language and scheme; the first view is English."""
        kinds = itertools.product(locales, get_args(Scheme))
        views = [View(locale, scheme, self._page(locale, scheme)) for locale, scheme in kinds]
        for view in views:
            view.page.goto(url)
        yield views
        for view in views:
            view.page.close()

    def _page(self, locale: str, scheme: Scheme) -> Page:
        page = self.browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT}, locale=locale, color_scheme=scheme, reduced_motion="reduce"
        )
        page.set_default_timeout(PATIENCE_MS)
        return page

    def path(self, scene: str, view: View, kind: str) -> Path:
        """The file for the picture of a view."""
        language = "" if view.locale == ENGLISH else f".{view.locale}"
        return self.directory / f"{scene}-{view.scheme}{language}.{kind}"

    def shoot(self, views: Sequence[View], scene: str) -> None:
        """Take a picture of each view."""
        for view in views:
            view.page.mouse.move(0, 0)
            picture = view.page.screenshot(animations="disabled")
            self.path(scene, view, "png").write_bytes(smaller(picture))


def smaller(picture: bytes) -> bytes:
    """The same picture with a palette of 256 colours, which cover rare ones too."""
    packed = io.BytesIO()
    colours = Image.open(io.BytesIO(picture)).convert("RGB")
    method = Image.Quantize.MAXCOVERAGE
    colours.quantize(256, method, kmeans=1, dither=Image.Dither.NONE).save(packed, "PNG", optimize=True)
    return packed.getvalue()
