"""The page of the scenes on the board: one is played at a time, and all viewers see it."""

from __future__ import annotations

import threading
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, cast

from flask import Blueprint, Flask, Response, current_app, request
from werkzeug.exceptions import Conflict

from app.board import parts
from app.board.settings import BoardSettings
from app.board.sources.locust import UNREACHABLE
from app.board.sources.stack_client import StackRefused
from app.board.web.pages import add_page
from app.board.web.security import authorize
from app.web.params import Parameters
from app.web.responses import json_response
from labs.scenes.scenes import SCENES
from labs.scenes.stage import CannotPlay, Countdown, Result, SceneStage, Step, TooSlow
from lock import LockError

STATIC = Path(__file__).parent / "static"
BEGINNINGS = ("/control/rush", "/control/reset", "/steps/begin")  # of another sale
PLAYING = "A scene is being played: let it end, or stop it."
# The board's page offers it as a link that begins the scene.
LINK = {
    "path": "/scenes",
    "text": {"en": "Pause the holder", "zh": "暂停持有者"},
    "first": {"path": "/scenes/start", "body": {"scene": "pause"}},
}

scenes = Blueprint("scenes", __name__, url_prefix="/scenes")


class Show:
    """The scene that is played, in its own thread, or was played last."""

    def __init__(self, settings: BoardSettings) -> None:
        self._settings = settings
        self._starting = threading.Lock()
        self._go_on = threading.Event()
        self._is_stopped = False
        # What the page shows: the scene, what was said so far, the columns of code, what is left of the lease, the
        # results, and whether it waits or is over; empty before the first scene.
        self.state: dict[str, Any] = {}

    @property
    def playing(self) -> str | None:
        """The scene that is played now."""
        return None if self.state.get("over", True) else str(self.state["scene"])

    def start(self, scene: str) -> None:
        """Play it, or let it go on if it is played already; raises Conflict."""
        with self._starting:
            if self.playing not in (None, scene):
                raise Conflict(PLAYING)
            if self.playing is None:
                with suppress(*UNREACHABLE):  # without Locust no rush is running
                    parts.of_board().locust.require_idle()
                self._is_stopped = False
                empty: dict[str, Any] = {"phases": [], "columns": [], "lease": None, "results": [], "problem": None}
                self.state = {"scene": scene, "waits": False, "over": False, **empty}
                threading.Thread(target=self._play, args=[scene], name="scene", daemon=True).start()

    def go_on(self, *, stops: bool = False) -> None:
        """Do what was announced; or end it, then what is frozen goes on, and what is dead is started."""
        self._is_stopped |= stops
        self._go_on.set()

    def _play(self, scene: str) -> None:
        problem = None
        try:
            with closing(SceneStage(self._settings)) as stage:
                for step in SCENES[scene](stage):
                    self._tell(step)
                    if self._is_stopped:
                        break
        except (TooSlow, FutureTimeout):
            problem = {"text": "too_slow", "values": {}}
        except (CannotPlay, StackRefused, LockError, OSError, ValueError) as error:
            problem = {"text": "cannot", "values": {"why": str(error)}}
        self.state |= {"over": True, "waits": False, "problem": problem}

    def _tell(self, step: Step) -> None:
        if isinstance(step, Countdown):
            self.state["lease"] = step._asdict()
        elif isinstance(step, Result):
            self.state["results"].append(step._asdict())
        else:
            self._go_on.clear()
            self.state["phases"].append({"text": step.text, "values": step.values})
            self.state |= {"columns": step.columns or self.state["columns"], "waits": step.waits}
            if step.waits and not self._is_stopped:
                self._go_on.wait()  # for as long as the teacher speaks
            self.state["waits"] = False


def the_show() -> Show:
    """The one of this board."""
    return cast(Show, current_app.extensions["scenes"])


@scenes.before_app_request
def keep_the_stage() -> None:
    """The sale of a scene ends with the scene."""
    if request.path in BEGINNINGS and request.method == "POST" and the_show().playing:
        raise Conflict(PLAYING)


@scenes.get("/state")
def state() -> Response:
    """The scene that is played, or was played last; and which there are."""
    return json_response({"scenes": list(SCENES), "show": the_show().state or None})


@scenes.post("/start")
def start() -> Response:
    """Play a scene: not in a rush, for it resets the sale, and one at a time; one that plays already goes on."""
    authorize(parts.of_board().settings)
    scene = Parameters(request, "scene").choice("scene", "pause", SCENES)
    the_show().start(scene)
    return json_response({"done": f"The scene {scene} begins."})


@scenes.post("/next", defaults={"stops": False})
@scenes.post("/stop", defaults={"stops": True})
def go_on(stops: bool) -> Response:
    """Do what was announced, or end the scene."""
    authorize(parts.of_board().settings)
    the_show().go_on(stops=stops)
    return json_response({"done": "It ends." if stops else "It goes on."})


def init_app(app: Flask, settings: BoardSettings) -> None:
    """Register the page and what it asks for."""
    app.extensions["scenes"] = Show(settings)
    add_page(app, "/scenes", STATIC / "scenes.html")
    app.register_blueprint(scenes)
