"""The page of the scenes on the board: one is played at a time, and all viewers see it."""

from __future__ import annotations

import threading
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from pathlib import Path
from typing import Any

from flask import Flask, Response, request
from werkzeug.exceptions import Conflict

from app.board.settings import BoardSettings
from app.board.sources.locust import UNREACHABLE, RushClient
from app.board.sources.stack_client import StackRefused
from app.board.web.pages import add_page
from app.board.web.security import authorize
from app.web.params import Parameters
from app.web.responses import json_response
from labs.scenes.phases import Countdown, Phase, Picture, Step
from labs.scenes.scenes import ITEMS, SCENES
from labs.scenes.stage import CannotPlay, SceneStage, TooSlow
from lock import LockError

STATIC = Path(__file__).parent / "static"
BEGINNINGS = ("/control/rush", "/control/reset")  # of another sale
PLAYING = "A scene is being played: let it end, or stop it."
# The board's page offers it as a link that begins the scene.
LINK = {
    "path": "/scenes",
    "text": {"en": "Pause the holder", "zh": "暂停持有者"},
    "first": {"path": "/scenes/start", "body": {"scene": "pause"}},
}


class Show:
    """One scene, played in its own thread.

    Attributes:
        state: what the page shows: the scene, what was said so far, the columns of code, what is left of the lease, the
            results, and whether it waits or is over.
    """

    def __init__(self, settings: BoardSettings, scene: str) -> None:
        self._settings = settings
        self._go_on = threading.Event()
        self._stopped = False
        self._lock = threading.Lock()
        self.state: dict[str, Any] = {
            "scene": scene,
            "phases": [],
            "columns": [],
            "lease": None,
            "results": [],
            "waits": False,
            "over": False,
            "problem": None,
        }
        self._thread = threading.Thread(target=self._play, name="scene", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return bool(self.state["over"])

    def go_on(self) -> None:
        """Do what was announced."""
        self._go_on.set()

    def stop(self) -> None:
        """End it; what is frozen goes on, and what is dead is started."""
        self._stopped = True
        self._go_on.set()

    def _play(self) -> None:
        problem: dict[str, Any] | None = None
        try:
            stage = SceneStage(self._settings, items=ITEMS)
            try:
                for step in SCENES[self.state["scene"]](stage):
                    self._tell(step)
                    if self._stopped:
                        break
            finally:
                stage.close()
        except (TooSlow, FutureTimeout):
            problem = {"text": "too_slow", "values": {}}
        except (CannotPlay, StackRefused, LockError, OSError, ValueError) as error:
            problem = {"text": "cannot", "values": {"why": str(error)}}
        self._change(over=True, waits=False, problem=problem)

    def _tell(self, step: Step) -> None:
        if isinstance(step, Picture):
            self._change(columns=step.columns)
        elif isinstance(step, Countdown):
            self._change(lease=step._asdict())
        elif not isinstance(step, Phase):
            self._change(results=[*self.state["results"], step._asdict()])
        else:
            self._go_on.clear()
            self._change(phases=[*self.state["phases"], {"text": step.text, "values": step.values}], waits=step.waits)
            if step.waits:
                if not self._stopped:
                    self._go_on.wait()  # for as long as the teacher speaks
                self._change(waits=False)

    def _change(self, **members: Any) -> None:
        with self._lock:
            self.state = {**self.state, **members}


def init_app(app: Flask, settings: BoardSettings) -> None:
    """Register the page and what it asks for."""
    shows: list[Show] = []
    starting = threading.Lock()
    locust: RushClient = app.extensions["locust"]

    add_page(app, "/scenes", STATIC / "scenes.html")

    @app.before_request
    def keep_the_stage() -> None:
        """The sale of a scene ends with the scene."""
        if request.path in BEGINNINGS and request.method == "POST" and shows and not shows[-1].is_over:
            raise Conflict(PLAYING)

    @app.get("/scenes/state")
    def scenes_state() -> Response:
        """The scene that is played, or was played last; and which there are."""
        return json_response({"scenes": list(SCENES), "show": shows[-1].state if shows else None})

    @app.post("/scenes/start")
    def scenes_start() -> Response:
        """Play a scene: not in a rush, for it resets the sale, and one at a time; one that plays already goes on."""
        authorize(settings)
        scene = Parameters(request, "scene").choice("scene", "pause", SCENES)
        with starting:
            playing = shows[-1].state["scene"] if shows and not shows[-1].is_over else None
            if playing not in (None, scene):
                raise Conflict(PLAYING)
            if playing is None:
                with suppress(*UNREACHABLE):  # without Locust no rush is running
                    locust.require_idle()
                shows[:] = [Show(settings, scene)]
        return json_response({"done": f"The scene {scene} begins."})

    @app.post("/scenes/next")
    def scenes_next() -> Response:
        authorize(settings)
        if shows:
            shows[-1].go_on()
        return json_response({"done": "It goes on."})

    @app.post("/scenes/stop")
    def scenes_stop() -> Response:
        authorize(settings)
        if shows:
            shows[-1].stop()
        return json_response({"done": "It ends."})
