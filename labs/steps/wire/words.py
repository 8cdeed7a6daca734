"""Commands to Redis and their answers in words, as people read them."""

from __future__ import annotations

import re
import sys
from functools import cache
from hashlib import sha1
from typing import Any

from app.sales.redis_client import LUA, Script

_LONGEST = 48  # of a word of a command, as it is shown
_AGES = {"TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME", "TIME"}  # what they answer is another number each time
_READS = re.compile(
    r"M?GET|GETRANGE|STRLEN|EXISTS|TYPE|P?TTL|P?EXPIRETIME|KEYS|SCAN|TIME|WATCH|LLEN|LRANGE|LINDEX|LPOS"
    r"|H(?:M?GET|GETALL|EXISTS|LEN|KEYS|VALS)|SCARD|SM?ISMEMBER|SMEMBERS|Z(?:CARD|COUNT|M?SCORE|RANGE|RANGEBYSCORE)"
    r"|ZREV(?:RANGE|RANK)|ZRANK|XLEN|XRANGE|XREAD|P?(?:UN)?SUBSCRIBE|(?:EVAL|EVALSHA|FCALL)_RO"
)


_CLOCK = re.compile(r"""call\s*\(\s*["']time["']""", re.IGNORECASE)  # in a script
_clocks: set[str] = set()  # hashes of scripts that look at it


@cache
def _names_of_scripts() -> dict[str, str]:
    """Those of the shop, by their hashes."""
    return {Script(path).sha: path.name for path in LUA.glob("*.lua") if path.name != "common.lua"}


@cache
def _common() -> str:
    return (LUA / "common.lua").read_text(encoding="utf-8")


def only_reads(commands: list[list[str]]) -> bool:
    """Whether no command can change anything."""
    return all(_READS.fullmatch(words[0].upper()) for words in commands)


def looks_at_clock(words: list[str]) -> bool:
    """Whether a command asks for the time of Redis, by itself or by a script, beyond what stands before the shop's."""
    name, *texts = words
    for text in texts[:2] if name.upper() in ("EVAL", "EVAL_RO", "SCRIPT", "FUNCTION") else ():
        if _CLOCK.search(text.replace(_common(), "")):
            _clocks.add(sha1(text.encode(errors="surrogateescape")).hexdigest())
            return True
    return name.upper() == "TIME" or bool(_clocks.intersection(texts[:1]))


def told(commands: list[list[str]], longest: int = _LONGEST) -> str:
    """As `redis-cli` would write them, each word up to so many characters."""
    return "; ".join(" ".join(_word(word, longest) for word in _named(words)) for words in commands)


def whole(commands: list[list[str]]) -> str:
    """All of them, by which states are told apart."""
    return told(commands, sys.maxsize)


def _named(words: list[str]) -> list[str]:
    name = words[0].upper()
    if name == "EVALSHA" and len(words) > 1:
        return [name, _names_of_scripts().get(words[1], words[1][:8]), *words[2:]]
    return [name, "SCRIPT", *words[2:]] if name == "EVAL" else words


def _word(word: str, longest: int) -> str:
    word = _legible(word)
    shown = word if len(word) <= longest else f"{word[:longest]}..."
    return f"'{shown}'" if not shown or " " in shown or shown != word else shown


def answer(commands: list[list[str]], answer: Any) -> str:
    """An answer, without what is another number each time."""
    name = commands[-1][0].upper()
    if name in _AGES and not (isinstance(answer, int) and answer <= 0) and not isinstance(answer, Exception):
        return "(time)"
    return _text(answer)


def _text(answer: Any) -> str:
    if isinstance(answer, Exception):
        return f"({answer})"
    if isinstance(answer, dict):
        answer = [each for pair in answer.items() for each in pair]
    if isinstance(answer, list):
        return f"[{', '.join(map(_text, answer))}]"
    return "nil" if answer is None else _legible(str(answer))


def _legible(text: str) -> str:
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")
