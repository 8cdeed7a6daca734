"""Locust's page: who may use it, a tab with the verdicts so far, and links to the board and the report.

By Locust's documented means ("Extending the Web UI"): `template_args` for the tab and the head of its table,
`after_request` for its rows. Links, larger letters and colours are inserted into the page: its tables have none.

The page starts rushes, so a page of another site must not reach it through a browser that shows both:
`app.contract.access` has the rules.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from flask import Response, abort, jsonify, redirect, request
from gevent import get_hub
from markupsafe import escape
from werkzeug.exceptions import Forbidden
from werkzeug.wrappers import Response as WerkzeugResponse

from app.contract.access import is_known_host, is_own_page
from loadtest.language import ENGLISH, LANGUAGES, text_in
from loadtest.ports import BOARD_PORT, LOOPBACK
from loadtest.results.folders import COMPARISON
from loadtest.rush.conductor import Conductor
from loadtest.shop_client.shops import SaleError, hosts_of
from loadtest.terminal import cells, titles_in

TAB = "verdict"
_FIRST = ("guard", "verdict", "promise")  # the columns that a room looks for
_BUSY = ("spawning", "running", "cleanup")
_HEADERS = {"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin"}
# Its components insert their styles; scripts in the page itself need the nonce of the response.
_POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data:; font-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_ADDITIONS = (Path(__file__).parent / "templates/locust_additions.html").read_text(encoding="utf-8")


class LocustWebExtension:
    """The tab in the page of `environment`, with the comparisons of `conductor`.

    The page is for itself and for programs, under known host names: FLASHSALE_LOCUST_NAMES has more, comma-separated.
    `look_for_guards` is called before the page with its form is made.
    """

    def __init__(self, environment: Any, conductor: Conductor, look_for_guards: Callable[[], None]) -> None:
        self._environment = environment
        self._conductor = conductor
        self._look_for_guards = look_for_guards
        names = os.environ.get("FLASHSALE_LOCUST_NAMES", "").split(",")
        self._names = {name.strip().lower() for name in names} - {""}
        environment.web_ui.template_args |= _tab(ENGLISH)
        app = environment.web_ui.app
        app.before_request(self._check)
        app.after_request(self._extend)
        app.add_url_rule(f"/{COMPARISON}", view_func=self.comparison)
        app.add_url_rule("/report/", view_func=self.report)
        app.add_url_rule(f"/report/{COMPARISON}", view_func=self.comparison)
        app.add_url_rule("/report/records/<guard>.json", view_func=self.record)

    def _check(self) -> Response | WerkzeugResponse | None:
        """Refuse other sites, and values that Locust does not check; its page shows the reason."""
        if not is_known_host(request.host, self._names):
            raise Forbidden("Locust's page is not known by that host name: use its address or FLASHSALE_LOCUST_NAMES.")
        if request.path == "/":  # the board links there
            self._look_for_guards()
            self._environment.web_ui.template_args |= _tab(_asked_language())  # the page is made next
            if "tab" not in request.args:  # a rush is over in seconds: what counts is its verdict
                return redirect(f"/?{urlencode([*request.args.items(multi=True), ('tab', TAB)])}")
        elif not is_own_page(request.headers, request.host, self._names):
            raise Forbidden("Pages of other sites may not use Locust's page.")
        try:
            if request.path == "/swarm":
                _check_form(request.form)
        except SaleError as error:
            return jsonify(success=False, message=str(error), host=self._environment.host)
        return None

    def _extend(self, response: Response) -> Response:
        """Add the rows to Locust's statistics, which its page polls, and the links to the page."""
        response.headers.update(_HEADERS)
        if request.path == "/stats/requests" and response.is_json:
            statistics = {"extended_stats": [{"key": TAB, "data": self._rows()}], "arrived": self._conductor.arrived}
            response.set_data(json.dumps({**response.get_json(), **statistics}))
        elif request.path == "/" and response.mimetype == "text/html":
            board = escape(os.environ.get("FLASHSALE_BOARD_URL") or f"http://{LOOPBACK}:{BOARD_PORT}")
            added = _ADDITIONS.replace("{board}", board)
            for name in ("ways", "board", "report"):
                added = added.replace(f"{{tab.{name}}}", text_in(_asked_language(), f"tab.{name}"))
            page = re.sub("<body[^>]*>", lambda body: body[0] + added, response.get_data(as_text=True))
            nonce = secrets.token_urlsafe(16)
            response.set_data(page.replace("<script", f'<script nonce="{nonce}"'))
            response.headers["Content-Security-Policy"] = _POLICY.format(nonce=nonce)
        return response

    def _rows(self) -> list[dict[str, str]]:
        rows = [cells(run, _asked_language()) for run in self._conductor.verdicts]
        return [*rows, {"verdict": self._conductor.notice}] if self._conductor.notice else rows

    def comparison(self) -> Response:
        """``GET /comparison.json``: the comparison so far, or null."""
        comparison = self._conductor.comparison
        return Response(comparison.to_json() if comparison else "null", content_type="application/json")

    def record(self, guard: str) -> Response:
        """``GET /report/records/GUARD.json``: the record of one run."""
        kept = next((record for record in self._conductor.records if record.guard == guard), None) or abort(404)
        return Response(kept.to_json(), content_type="application/json")

    def report(self) -> Response:
        """``GET /report/``: the page that `make demo` writes; drawn after the rush."""
        comparison = self._conductor.comparison
        if self._environment.runner.state in _BUSY:
            return Response("The rush is not over yet: reload this when it is.\n", 503, content_type="text/plain")
        if not (comparison and comparison.runs):
            return Response("There is no comparison yet: start one in Locust's page.\n", 404, content_type="text/plain")
        from loadtest.report.pages import comparison_page  # most rushes are never drawn

        # in a thread, so that Locust's greenlets go on
        html = get_hub().threadpool.apply(comparison_page, (comparison, [*self._conductor.records], _asked_language()))
        return Response(html, content_type="text/html")


def _asked_language() -> str:
    """The first language of the browser that has texts; a region, as in zh-CN, does not matter."""
    languages = (tag[:2].lower() for tag in request.accept_languages.values())
    return next((language for language in languages if language in LANGUAGES), ENGLISH)


def _tab(language: str) -> dict[str, Any]:
    """The tab and its columns as Locust's page takes them: the keys are the same in every language."""
    titles = sorted(titles_in(language).items(), key=lambda column: column[0] not in _FIRST)
    return {
        "extended_tabs": [{"key": TAB, "title": text_in(language, "tab.title")}],
        "extended_tables": [{"key": TAB, "structure": [{"key": key, "title": title} for key, title in titles]}],
        "extended_csv_files": [{"href": f"./{COMPARISON}", "title": text_in(language, "tab.download")}],
    }


def _check_form(form: Mapping[str, str]) -> None:
    """Raise SaleError for a value that cannot be read."""
    if form.get("host"):
        hosts_of(form["host"])
    for name in ("stock", "hold_ms"):
        if not re.fullmatch(r"-?\d+", form.get(name, "0")):
            raise SaleError(f"{name} is {form[name]!r}: give a whole number.")
