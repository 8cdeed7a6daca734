"""What Redis reads and writes (RESP 2 and 3), and HTTP, cut into commands and answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

OF_THE_CONNECTION = {
    "HELLO", "CLIENT", "AUTH", "SELECT", "PING", "SCRIPT", "UNWATCH", "QUIT", "COMMAND", "INFO", "ECHO",
}  # fmt: skip
_BLOCK_LAST = {"BLPOP", "BRPOP", "BLMOVE", "BRPOPLPUSH", "BZPOPMIN", "BZPOPMAX"}  # where they say how long
_BLOCK_FIRST = {"BLMPOP", "BZMPOP"}
BLOCK_S = 0.005  # instead
_LIVES = {"EX": 1000, "PX": 1, "EXAT": 1000, "PXAT": 1}  # options of SET and GETEX, in ms
_EXPIRES = {"EXPIRE": 1000, "PEXPIRE": 1, "EXPIREAT": 1000, "PEXPIREAT": 1}  # KEY TIME
_SETS = {"SETEX": 1000, "PSETEX": 1}  # KEY TIME VALUE


class Refused(Exception):
    """What Redis answers with an error."""


@dataclass
class Commands:
    """One command, or a transaction.

    Attributes:
        words: of each.
        packed: as it is sent.
    """

    words: list[list[str]] = field(default_factory=list)
    packed: bytes = b""

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

    def bounded(self) -> bytes | None:
        """The same that blocks for a moment alone; None if it does not block."""
        words = list(self.words[0])
        if self.name in _BLOCK_LAST:
            return packed([*words[:-1], str(BLOCK_S)])
        if self.name in _BLOCK_FIRST:
            return packed([words[0], str(BLOCK_S), *words[2:]])
        upper = [word.upper() for word in words]
        if self.name in ("XREAD", "XREADGROUP") and "BLOCK" in upper:
            words[upper.index("BLOCK") + 1] = str(int(BLOCK_S * 1000))
            return packed(words)
        return None

    def long_lived(self, life_ms: int) -> bytes:
        """The same with times to live of `life_ms` instead of shorter ones, or of times of day."""
        lives = [_long_lived(words, life_ms) for words in self.words]
        return self.packed if lives == self.words else b"".join(map(packed, lives))


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


def packed(words: list[str]) -> bytes:
    """A command as it is sent."""
    coded = [word.encode(errors="surrogateescape") for word in words]
    return b"".join([b"*%d\r\n" % len(coded), *(b"$%d\r\n%s\r\n" % (len(word), word) for word in coded)])


def commands_in(data: bytes) -> tuple[list[Commands], bytes]:
    """The commands, those of a transaction together, and the rest behind the last whole one."""
    found: list[Commands] = []
    while data and (split := _command(data)):
        words, size = split
        if words:
            if not (found and found[-1].is_open):
                found.append(Commands())
            found[-1].words.append(words)
            found[-1].packed += data[:size]
        data = data[size:]
    return found, data


def _command(data: bytes) -> tuple[list[str], int] | None:
    """The words of the first command and its size; None if it is not whole."""
    if data[:1] != b"*":  # typed into a terminal, as it were
        end = data.find(b"\n")
        return None if end < 0 else (data[:end].decode(errors="surrogateescape").split(), end + 1)
    read = answer_in(data, 0)
    return None if read is None else ([str(word) for word in read[0]], read[1])


def answer_in(data: bytes, at: int) -> tuple[Any, int] | None:
    """The answer that begins there and the place behind it; None if it is not whole."""
    end = data.find(b"\r\n", at)
    if end < 0:
        return None
    kind, head, at = data[at : at + 1], data[at + 1 : end], end + 2
    if kind in b"$=!":
        return _bulk(kind, int(head), data, at)
    if kind in b"*~>%|":
        return _several(kind, int(head), data, at)
    text = head.decode(errors="surrogateescape")
    if kind == b"-":
        return Refused(text.partition(" ")[0]), at
    if kind == b"_":
        return None, at
    return (int(text) if kind == b":" else text == "t" if kind == b"#" else text), at


def _bulk(kind: bytes, size: int, data: bytes, at: int) -> tuple[Any, int] | None:
    if size < 0:
        return None, at
    if len(data) < at + size + 2:
        return None
    text = data[at : at + size].decode(errors="surrogateescape")
    return (Refused(text.partition(" ")[0]) if kind == b"!" else text), at + size + 2


def _several(kind: bytes, size: int, data: bytes, at: int) -> tuple[Any, int] | None:
    if size < 0:
        return None, at
    found = []
    for _ in range(size * (2 if kind in b"%|" else 1)):
        each = answer_in(data, at)
        if each is None:
            return None
        found.append(each[0])
        at = each[1]
    return answer_in(data, at) if kind == b"|" else (found, at)


def message_in(data: bytes, at: int = 0) -> tuple[bytes, bytes, int] | None:
    """First line and body of the HTTP message that begins there, and the place behind it; None if it is not whole."""
    end = data.find(b"\r\n\r\n", at)
    if end < 0:
        return None
    first, _, head = data[at:end].partition(b"\r\n")
    fields = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in head.splitlines())
    }
    at = end + 4
    if b"chunked" in fields.get(b"transfer-encoding", b""):
        return _chunked(first, data, at)
    size = int(fields.get(b"content-length", b"0"))
    return None if len(data) < at + size else (first, data[at : at + size], at + size)


def _chunked(first: bytes, data: bytes, at: int) -> tuple[bytes, bytes, int] | None:
    body = b""
    while (end := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:end].partition(b";")[0], 16)
        if len(data) < end + 4 + size:
            return None
        body, at = body + data[end + 2 : end + 2 + size], end + 4 + size
        if not size:
            return first, body, at
    return None
