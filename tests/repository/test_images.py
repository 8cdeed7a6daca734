"""The pictures in the documents: there, small, all of them shown, and described for those who do not see them."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
IMAGES = REPOSITORY / "docs/images"
DOCUMENTS = [REPOSITORY / "README.md", *sorted(REPOSITORY.glob("docs/*.md"))]
LARGEST = {".png": 200_000, ".svg": 200_000, ".webp": 2_000_000}  # bytes; only the moving ones are WebP


def shown() -> set[Path]:
    """Every picture that a document names."""
    return {
        (document.parent / name).resolve()
        for document in DOCUMENTS
        for name in re.findall(r'(?:src|srcset)="([^"]+\.(?:png|svg|webp))"', document.read_text(encoding="utf-8"))
    }


def test_every_picture_is_shown_and_small() -> None:
    """None is missing, none is left over, none is heavy."""
    assert shown() == set(IMAGES.iterdir())
    assert {path.name for path in IMAGES.iterdir() if path.stat().st_size > LARGEST[path.suffix]} == set()


def test_every_picture_is_described() -> None:
    """Each has a text in its place that says what there is to see."""
    for document in DOCUMENTS:
        for tag in re.findall(r"<img [^>]*>", document.read_text(encoding="utf-8")):
            found = re.search(r'alt="([^"]{30,})"', tag)
            assert found, tag


def test_what_moves_has_a_still() -> None:
    """Paper and those who want nothing to move get a picture that stands, in both colour schemes."""
    moving = 0
    for document in DOCUMENTS:
        for picture in re.findall(r"<picture>.*?</picture>", document.read_text(encoding="utf-8"), re.DOTALL):
            if ".webp" in picture:
                moving += 1
                assert re.search(r'<source media="print[^"]*" srcset="[^"]+-light\.png">', picture)
                for scheme in ("dark", "light"):
                    still = rf'<source media="[^"]*prefers-reduced-motion: reduce[^"]*" srcset="[^"]+-{scheme}\.png">'
                    assert re.search(still, picture[: picture.index(".webp")])
    assert moving


def test_the_drawing_fits_both_colour_schemes() -> None:
    """It brings its own ground and colours for dark and light, and fetches nothing."""
    drawing = (IMAGES / "architecture.svg").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in drawing
    assert "<title" in drawing
    assert not re.search(r"href|url\((?!#)", drawing)
