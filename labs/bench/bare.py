"""The bare Flask apps that a click is held against: ``gunicorn -c labs/bench/gunicorn.conf.py labs.bench.bare:app``.

``POST /decr`` is one DECR in Redis and an answer in JSON, ``POST /nothing`` the answer alone.
"""

from __future__ import annotations

import os

import redis
from flask import Flask

KEY = "bench:bare"
app = Flask(__name__, static_folder=None)
_client = redis.Redis.from_url(os.environ["FLASHSALE_REDIS_URL"])


@app.get("/livez")
def livez() -> dict[str, str]:
    """Answer at once."""
    return {"status": "ok"}


@app.post("/decr")
def decr() -> dict[str, object]:
    """Sell one of what may not be there."""
    return {"outcome": "sold", "stock": _client.decr(KEY)}


@app.post("/nothing")
def nothing() -> dict[str, object]:
    """Sell without Redis."""
    return {"outcome": "sold", "stock": 0}
