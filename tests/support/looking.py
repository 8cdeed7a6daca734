"""What a viewer sees: the page of the board, read as people read it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Dialog, Locator, Page

PATIENCE_MS = 60_000
# Keeps the times at which each figure changed, and every shift of the layout that no hand has caused.
WITNESS = """
window.witness = { changes: {}, shifts: [] };
new PerformanceObserver((list) => {
  for (const each of list.getEntries()) if (!each.hadRecentInput) witness.shifts.push(each.value);
}).observe({ type: "layout-shift", buffered: true });
addEventListener("DOMContentLoaded", () => {
  const figures = document.getElementById("figures");
  if (!figures) return; // another site's page
  new MutationObserver(() => {
    for (const figure of figures.children) {
      const [name, value] = [...figure.children].map((each) => each.textContent);
      const seen = (witness.changes[name] ??= []);
      if (seen.at(-1) !== value) seen.push(value);
    }
  }).observe(figures, { subtree: true, childList: true, characterData: true });
});
"""


class Looker:
    """One viewer.

    Attributes:
        complaints: what the browser wrote to its console as an error.
    """

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.complaints: list[str] = []
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", self._refuse)
        page.add_init_script(WITNESS)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _refuse(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open(self) -> None:
        """Load the page and wait until it shows something."""
        self.page.goto(f"{self.url}/")
        self.page.wait_for_selector("#source:is([data-state=live], [data-state=recorded])")

    def __call__(self, selector: str) -> Locator:
        return self.page.locator(selector)

    def text(self, selector: str) -> str:
        """The text of the one element that is meant."""
        text: str = self.page.locator(selector).inner_text()
        return text

    def figure(self, name: str) -> int | None:
        """One of the figures beside the verdict; None while it is not there."""
        found = self.page.evaluate(
            "name => document.querySelector(`#figures [data-key='${name}'] dd`)?.textContent", name
        )
        return int(found.replace(",", "")) if found and found != "?" else None

    def wait_figure(self, name: str, number: int) -> None:
        """Until the figure has reached `number`."""
        self.page.wait_for_function(
            "([name, number]) => number <= "
            "Number(document.querySelector(`#figures [data-key='${name}'] dd`)?.textContent.replace(',', ''))",
            arg=[name, number],
        )

    def wait_text(self, selector: str, pattern: str) -> None:
        """Until the text of the element has the pattern."""
        self.page.wait_for_function(
            "([selector, pattern]) => new RegExp(pattern, 's').test(document.querySelector(selector)?.textContent)",
            arg=[selector, pattern],
        )

    def changes(self, name: str) -> list[str]:
        """What the figure has shown, one after the other."""
        found: list[str] = self.page.evaluate("name => witness.changes[name] ?? []", name)
        return found

    def shifted(self) -> float:
        """By how much the layout has moved under the viewer's eyes, as browsers measure it."""
        return float(self.page.evaluate("() => witness.shifts.reduce((a, b) => a + b, 0)"))

    def sections(self) -> int:
        """How many critical sections the timeline has."""
        found = re.match(r"([\d,]+) section", self.text("#timeline-note"))
        return int(found[1].replace(",", "")) if found else 0

    def instances(self) -> dict[str, int]:
        """Sold by each instance."""
        rows: list[list[Any]] = self.page.evaluate(
            "() => [...document.querySelectorAll('#instances tr')].map((row) => "
            "[row.dataset.instance, Number(row.querySelector('.track b').textContent.replace(',', ''))])"
        )
        return dict(rows)

    def runs(self) -> dict[str, tuple[str, str]]:
        """The last run of each guard: sold, verdict."""
        rows: list[list[str]] = self.page.evaluate(
            "() => [...document.querySelectorAll('#runs tr')].map((row) => ['th', '.number', '.word']"
            ".map((part) => row.querySelector(part).textContent))"
        )
        return {guard: (sold, verdict) for guard, sold, verdict in rows}
