"""Photograph a page in several sizes and languages, dark and light."""

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
SIZES = {"small": (1280, 720), "large": (1920, 1080), "phone": (390, 844)}
Scheme = Literal["dark", "light"]
ENGLISH, CHINESE = "en", "zh-CN"


@dataclass(frozen=True)
class View:
    """A page in one size, language and colour scheme."""

    size: str
    locale: str
    scheme: Scheme
    page: Page


@dataclass(frozen=True)
class Camera:
    """Takes the pictures that the documents show, or all.

    Attributes:
        browser: opens the pages.
        directory: for the pictures.
        every: in all sizes, and whole pages; else what fits on a small screen.
    """

    browser: Browser
    directory: Path
    every: bool

    @contextmanager
    def views(self, url: str, *, locales: Sequence[str] = (ENGLISH,)) -> Iterator[list[View]]:
        """The page at `url`, open in all sizes, or in the one that the documents show; the first view is English."""
        sizes = SIZES if self.every else ("small",)
        kinds = itertools.product(locales, sizes, get_args(Scheme))
        views = [View(size, locale, scheme, self._page(size, locale, scheme)) for locale, size, scheme in kinds]
        for view in views:
            view.page.goto(url)
        yield views
        for view in views:
            view.page.close()

    def _page(self, size: str, locale: str, scheme: Scheme) -> Page:
        width, height = SIZES[size]
        page = self.browser.new_page(
            viewport={"width": width, "height": height}, locale=locale, color_scheme=scheme, reduced_motion="reduce"
        )
        page.set_default_timeout(PATIENCE_MS)
        return page

    def path(self, scene: str, view: View, kind: str) -> Path:
        """The file for the picture of a view."""
        self.directory.mkdir(parents=True, exist_ok=True)
        size = f"-{view.size}" if self.every else ""
        language = "" if view.locale == ENGLISH else f".{view.locale}"
        return self.directory / f"{scene}{size}-{view.scheme}{language}.{kind}"

    def shoot(self, views: Sequence[View], scene: str, *, shown: bool = True) -> None:
        """Take a picture of each view; a scene that is not `shown` in the documents only if all are wanted."""
        for view in views if self.every or shown else []:
            view.page.mouse.move(0, 0)
            picture = view.page.screenshot(full_page=self.every, animations="disabled")
            self.path(scene, view, "png").write_bytes(smaller(picture))


def smaller(picture: bytes) -> bytes:
    """The same picture with a palette of 256 colours, which cover rare ones too."""
    packed = io.BytesIO()
    colours = Image.open(io.BytesIO(picture)).convert("RGB")
    method = Image.Quantize.MAXCOVERAGE
    colours.quantize(256, method, kmeans=1, dither=Image.Dither.NONE).save(packed, "PNG", optimize=True)
    return packed.getvalue()
