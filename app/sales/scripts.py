"""The Lua scripts, as Redis runs them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha1
from pathlib import Path
from typing import Any

import redis
from redis.client import Pipeline
from redis.exceptions import NoScriptError

LUA = {path.stem: path.read_text(encoding="utf-8") for path in (Path(__file__).parent / "lua").glob("*.lua")}
TEXTS = {name: LUA["common"] + text for name, text in LUA.items() if name != "common"}
SHAS = {name: sha1(text.encode()).hexdigest() for name, text in TEXTS.items()}
Call = tuple[Sequence[str], Sequence[str | int]]  # keys and arguments


class Script:
    """One of ``lua/*.lua``. The texts are sent once, and again when Redis has forgotten them: then none did run."""

    def __init__(self, client: redis.Redis, name: str) -> None:
        self._client = client
        self._sha = SHAS[name]

    def __call__(self, keys: Sequence[str], args: Sequence[str | int], *, pipe: Pipeline | None = None) -> Any:
        """Run it, or queue it where `pipe` is inside MULTI: `load` it before."""
        evalsha = (pipe or self._client).evalsha
        try:
            return evalsha(self._sha, len(keys), *keys, *args)
        except NoScriptError:
            self.load()
            return evalsha(self._sha, len(keys), *keys, *args)

    def together(self, calls: Sequence[Call]) -> list[Any]:
        """Run it with all these keys and arguments in one step; the answers."""
        with self._client.pipeline(transaction=True) as pipe:
            for keys, args in calls:
                self(keys, args, pipe=pipe)
            try:
                return list(pipe.execute())
            except NoScriptError:  # then none did run
                self.load()
                return self.together(calls)

    def load(self) -> None:
        """Send all texts: a purchase that needs two scripts must not find the second one missing after its thinking."""
        with self._client.pipeline(transaction=False) as pipe:
            for text in TEXTS.values():
                pipe.script_load(text)
            pipe.execute()
