"""Write the badges of README.md; COVERED is the percentage that make coverage has found."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "docs/images"
LETTER, PADDING = 6.6, 12  # pixels
BADGE = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="20">
<title>{name}: {value}</title>
<rect width="{width:.0f}" height="20" rx="3" fill="#00695c"/>
<rect width="{left:.0f}" height="20" rx="3" fill="#424242"/>
<g font-family="Verdana, sans-serif" font-size="11" fill="#fff" text-anchor="middle">
<text x="{middle:.0f}" y="14">{name}</text>
<text x="{other:.0f}" y="14">{value}</text>
</g>
</svg>
"""


def badge(name: str, value: str) -> str:
    """The name on the left, the value on the right."""
    left, right = (LETTER * len(text) + PADDING for text in (name, value))
    return BADGE.format(name=name, value=value, left=left, width=left + right, middle=left / 2, other=left + right / 2)


def main(covered: str) -> None:
    """Write all of them."""
    for name, value in {"python": "3.10 to 3.14", "licence": "MIT", "coverage": f"{covered} %"}.items():
        (PLACE / f"badge-{name}.svg").write_text(badge(name, value), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
