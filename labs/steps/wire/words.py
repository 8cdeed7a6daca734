"""Commands and answers in words, as people read them."""

from __future__ import annotations

import json
import re
import sys
from base64 import b64decode
from functools import cache
from typing import Any

from app.sales.redis_client import LUA, Script

_LONGEST = 48  # of a word of a command, as it is shown
_COMPARED = {0: "version", 1: "create", 2: "mod", 3: "value", 4: "lease"}
_AGES = {"TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME", "TIME"}  # what they answer is another number each time
_READS = re.compile(
    r"M?GET|GETRANGE|STRLEN|EXISTS|TYPE|P?TTL|P?EXPIRETIME|KEYS|SCAN|TIME|WATCH|LLEN|LRANGE|LINDEX|LPOS"
    r"|H(?:M?GET|GETALL|EXISTS|LEN|KEYS|VALS)|SCARD|SM?ISMEMBER|SMEMBERS|Z(?:CARD|COUNT|M?SCORE|RANGE|RANGEBYSCORE)"
    r"|ZREV(?:RANGE|RANK)|ZRANK|XLEN|XRANGE|XREAD|P?(?:UN)?SUBSCRIBE|(?:EVAL|EVALSHA|FCALL)_RO"
)
_ETCD_READS = (
    "Range",
    "LeaseTimeToLive",
    "LeaseLeases",
    "Status",
    "MemberList",
    "/v3/kv/range",
    "/v3/lease/timetolive",
)


@cache
def shop_scripts() -> dict[str, Script]:
    """Those of the shop, by the names of their files."""
    return {path.name: Script(path) for path in sorted(LUA.glob("*.lua")) if path.name != "common.lua"}


@cache
def _names_of_scripts() -> dict[str, str]:
    return {script.sha: name for name, script in shop_scripts().items()}


def only_reads(commands: list[list[str]]) -> bool:
    """Whether no command to Redis can change anything."""
    return all(_READS.fullmatch(words[0].upper()) for words in commands)


def etcd_writes(method: str) -> bool:
    """Whether a request to etcd can change something."""
    return method not in _ETCD_READS


def of_redis(commands: list[list[str]], longest: int = _LONGEST) -> str:
    """As `redis-cli` would write them, each word up to so many characters."""
    return "; ".join(" ".join(_word(word, longest) for word in _named(words)) for words in commands)


def whole(commands: list[list[str]]) -> str:
    """All of them, by which states are told apart."""
    return of_redis(commands, sys.maxsize)


def _named(words: list[str]) -> list[str]:
    name = words[0].upper()
    if name == "EVALSHA" and len(words) > 1:
        return [name, _names_of_scripts().get(words[1], words[1][:8]), *words[2:]]
    return [name, "SCRIPT", *words[2:]] if name == "EVAL" else words


def _word(word: str, longest: int = _LONGEST) -> str:
    word = _legible(word)
    shown = word if len(word) <= longest else f"{word[:longest]}..."
    return f"'{shown}'" if not shown or " " in shown or shown != word else shown


def keys_in_redis(commands: list[list[str]]) -> list[str]:
    """The keys that these commands are about, as far as their first one or, of a script, all."""
    found: list[str] = []
    for words in commands:
        if words[0].upper().startswith(("EVAL", "FCALL")) and len(words) > 2 and words[2].isdigit():
            found += words[3 : 3 + int(words[2])]
        else:
            found += words[1:2]
    return found


def keys_in_etcd(request: Any) -> list[str]:
    """The keys that a request may put."""
    puts = [each.request_put for each in getattr(request, "success", ()) if each.HasField("request_put")]
    return [_key_of(each) for each in (puts or [request])]


def _legible(text: str) -> str:
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")


def answer_of_redis(commands: list[list[str]], answer: Any) -> str:
    """An answer, without what is another number each time."""
    name = commands[-1][0].upper()
    if name in _AGES and not (isinstance(answer, int) and answer <= 0) and not isinstance(answer, Exception):
        return "(time)"
    return _text(answer)


def _text(answer: Any) -> str:
    if isinstance(answer, Exception):
        return f"({answer})"
    if isinstance(answer, (list, tuple)):
        return f"[{', '.join(map(_text, answer))}]"
    return "nil" if answer is None else _legible(str(answer))


def of_etcd(method: str, request: Any) -> str:
    """Such as ``Txn if create(KEY) = 0 then put KEY``: what matters of a request."""
    if method != "Txn":
        return f"{method} {_key_of(request)}".strip()
    compared = ", ".join(f"{_COMPARED[each.target]}({_key_of(each)})" for each in request.compare)
    done = ", ".join(
        f"{each.WhichOneof('request')[8:]} {_key_of(getattr(each, each.WhichOneof('request')))}"
        for each in request.success
    )
    return f"Txn if {compared or 'true'} then {done or 'nothing'}"


def _key_of(request: Any) -> str:
    key = getattr(request, "key", b"")
    return key.decode(errors="replace") if isinstance(key, bytes) else str(key)


def answer_of_etcd(method: str, request: Any, response: Any) -> str:
    """Without the header, but for the revision of what was put, which is a token."""
    shown = type(response)()
    shown.CopyFrom(response)
    puts = method == "Put" or any(each.HasField("request_put") for each in getattr(request, "success", ()))
    has_put = puts and getattr(response, "succeeded", True)
    revision = f"revision: {response.header.revision} " if has_put else ""
    shown.ClearField("header")
    if hasattr(shown, "kvs"):  # in the order of their names, which may be chance
        shown.kvs.sort(key=lambda kv: kv.create_revision)
    for each in getattr(shown, "responses", []):
        kind = each.WhichOneof("response")
        getattr(each, kind).ClearField("header")
        if kind == "response_range":
            each.response_range.kvs.sort(key=lambda kv: kv.create_revision)
    return revision + " ".join(str(shown).split())


def of_http(path: str, body: bytes) -> str:
    """A request to etcd's gateway, with the keys that it is about."""
    return " ".join([f"POST {path}", *map(_word, keys_in_http(body))])


def keys_in_http(body: bytes) -> list[str]:
    """The keys that a request to etcd's gateway is about."""
    try:
        return [b64decode(key).decode(errors="replace") for key in _found("key", json.loads(body or b"{}"))]
    except ValueError:
        return []


def answer_of_http(body: bytes) -> str:
    """Without the headers of etcd, but for the revision of what was put."""
    try:
        told = json.loads(body)
    except ValueError:
        return body.decode(errors="replace")
    header = told.pop("header", {}) if isinstance(told, dict) else {}
    for each in told.get("responses", []) if isinstance(told, dict) else []:
        for response in each.values():
            if isinstance(response, dict):
                response.pop("header", None)
    return f"revision: {header.get('revision')} {json.dumps(told)}" if header else json.dumps(told)


def _found(name: str, value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value[name]] if isinstance(value.get(name), str) else []
        return own + [each for inner in value.values() for each in _found(name, inner)]
    return [each for inner in value for each in _found(name, inner)] if isinstance(value, list) else []
