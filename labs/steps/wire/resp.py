"""What Redis reads and writes, cut into commands and answers by hiredis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import hiredis

OF_THE_CONNECTION = {
    "HELLO", "CLIENT", "AUTH", "SELECT", "PING", "SCRIPT", "UNWATCH", "QUIT", "COMMAND", "INFO", "ECHO",
}  # fmt: skip
_BLOCK_LAST = {"BLPOP", "BRPOP", "BLMOVE", "BRPOPLPUSH", "BZPOPMIN", "BZPOPMAX"}  # where they say how long
_BLOCK_FIRST = {"BLMPOP", "BZMPOP"}
BLOCK_S = 0.005  # instead
_LIVES = {"EX": 1000, "PX": 1, "EXAT": 1000, "PXAT": 1}  # options of SET and GETEX, in ms
_EXPIRES = {"EXPIRE": 1000, "PEXPIRE": 1, "EXPIREAT": 1000, "PEXPIREAT": 1}  # KEY TIME
_SETS = {"SETEX": 1000, "PSETEX": 1}  # KEY TIME VALUE
_PARTIAL = object()


class Refused(Exception):
    """What Redis answers with an error, by the first word of it."""


def _reader() -> hiredis.Reader:
    return hiredis.Reader(
        replyError=lambda text: Refused(text.partition(" ")[0]),
        encoding="utf-8",
        errors="surrogateescape",
        notEnoughData=_PARTIAL,
    )


def answers_in(data: bytes, number: int) -> list[Any] | None:
    """So many answers; None if they are not whole."""
    reader = _reader()
    reader.feed(data)
    found = [reader.gets() for _ in range(number)]
    return None if _PARTIAL in found else found


class Cutter:
    """Cuts what is sent into commands."""

    def __init__(self) -> None:
        self._reader = _reader()

    def cut(self, data: bytes) -> list[Commands]:
        """The commands that are whole now, those of a transaction together."""
        if not self._reader.has_data() and not data.startswith(b"*"):  # typed into a terminal, as it were
            data = b"".join(_packed(line.decode(errors="surrogateescape").split()) for line in data.splitlines())
        self._reader.feed(data)
        found: list[Commands] = []
        while (words := self._reader.gets()) is not _PARTIAL:
            if not (found and found[-1].is_open):
                found.append(Commands([]))
            found[-1].words.append([str(word) for word in words])
        return found


@dataclass
class Commands:
    """The words of one command, or those of each command of a transaction."""

    words: list[list[str]]

    @property
    def name(self) -> str:
        return self.words[0][0].upper()

    @property
    def is_open(self) -> bool:
        """Whether it is a transaction without its end."""
        return self.name == "MULTI" and self.words[-1][0].upper() not in ("EXEC", "DISCARD")

    @property
    def is_of_the_connection(self) -> bool:
        return self.name in OF_THE_CONNECTION

    def packed(self, life_ms: int = 0) -> bytes:
        """As they are sent; with times to live of `life_ms` instead of shorter ones, or of times of day."""
        return b"".join(_packed(_long_lived(words, life_ms) if life_ms else words) for words in self.words)

    def bounded(self) -> bytes | None:
        """The same that blocks for a moment alone; None if it does not block."""
        words = list(self.words[0])
        if self.name in _BLOCK_LAST:
            return _packed([*words[:-1], str(BLOCK_S)])
        if self.name in _BLOCK_FIRST:
            return _packed([words[0], str(BLOCK_S), *words[2:]])
        upper = [word.upper() for word in words]
        if self.name in ("XREAD", "XREADGROUP") and "BLOCK" in upper:
            words[upper.index("BLOCK") + 1] = str(int(BLOCK_S * 1000))
            return _packed(words)
        return None


def _packed(words: list[str]) -> bytes:
    coded: Any = tuple(word.encode(errors="surrogateescape") for word in words)
    return hiredis.pack_command(coded) if words else b""


def _long_lived(words: list[str], life_ms: int) -> list[str]:
    name, words = words[0].upper(), list(words)
    if name in ("SET", "GETEX"):
        for place in range(2, len(words) - 1):
            option = words[place].upper()
            if _is_short(words[place + 1], _LIVES.get(option, 0), option, life_ms):
                words[place : place + 2] = ["PX", str(life_ms)]
    elif len(words) > 2 and _is_short(words[2], _EXPIRES.get(name, 0) or _SETS.get(name, 0), name, life_ms):
        words[0], words[2] = ("PSETEX" if name in _SETS else "PEXPIRE"), str(life_ms)
    return words


def _is_short(text: str, unit_ms: int, name: str, life_ms: int) -> bool:
    """Whether this is a time to live that ends too soon, or a time of day, which may be over."""
    if not unit_ms or not text.isdigit() or not int(text):
        return False
    return name.endswith("AT") or int(text) * unit_ms < life_ms / 2
