"""The pictures in the documents: there, small, all of them shown, and described for those who do not see them."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
IMAGES = REPOSITORY / "docs/images"
DOCUMENTS = [REPOSITORY / "README.md", *sorted(REPOSITORY.glob("docs/*.md"))]
LARGEST = 200_000  # bytes


def shown() -> set[Path]:
    """Every picture that a document names."""
    return {
        (document.parent / name).resolve()
        for document in DOCUMENTS
        for name in re.findall(r'(?:src|srcset)="([^"]+\.(?:png|svg))"', document.read_text(encoding="utf-8"))
    }


def test_every_picture_is_shown_and_small() -> None:
    """None is missing, none is left over, none is heavy."""
    assert shown() == set(IMAGES.iterdir())
    assert {path.name for path in IMAGES.iterdir() if path.stat().st_size > LARGEST} == set()


def test_every_picture_is_described() -> None:
    """Each has a text in its place that says what there is to see."""
    for document in DOCUMENTS:
        for tag in re.findall(r"<img [^>]*>", document.read_text(encoding="utf-8")):
            found = re.search(r'alt="([^"]{30,})"', tag)
            assert found, tag


def test_the_drawing_fits_both_colour_schemes() -> None:
    """It brings its own ground and colours for dark and light, and fetches nothing."""
    drawing = (IMAGES / "architecture.svg").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in drawing
    assert "<title" in drawing
    assert not re.search(r"href|url\((?!#)", drawing)
