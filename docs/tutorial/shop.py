"""Step 1: a sale without a lock. Flask answers, Redis keeps the stock counter and the list of orders."""

import logging
import os
import sys
import time
from collections.abc import Callable

import redis
from flask import Flask, request
from werkzeug.serving import make_server

STOCK, ORDERS = "{tutorial}:stock", "{tutorial}:orders"
store = redis.Redis.from_url(
    os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0"), decode_responses=True, socket_timeout=5
)


def think() -> None:
    """What a real shop does between read and write: compute a price, ask another service."""
    time.sleep(float(request.args.get("think", "0.2")))


def buy(buyer: str) -> str:
    """Sell an item; the answer for the buyer."""
    left = int(store.get(STOCK) or 0)
    if left <= 0:
        return "sold out"
    think()
    store.set(STOCK, left - 1)
    store.rpush(ORDERS, buyer)
    return "sold"


def serve(buy: Callable[[str], str]) -> None:
    """Run one instance of the shop, on the port that the command line names."""
    app = Flask(__name__)

    @app.post("/buy")
    def purchase() -> str:
        return f"{request.args['buyer']}: {buy(request.args['buyer'])}\n"

    @app.post("/reset")
    def reset() -> str:
        store.delete(ORDERS)
        store.set(STOCK, request.args["stock"])
        return ""

    @app.get("/verdict")
    def verdict() -> str:
        stock, sold, left = int(request.args["stock"]), store.llen(ORDERS), store.get(STOCK)
        word = "EXACT" if sold == stock else f"OVERSOLD by {sold - stock}" if sold > stock else "UNDERSOLD"
        return f"{word}: {sold} orders for {stock} items, the counter says {left}\n"

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    make_server("127.0.0.1", int(sys.argv[1]), app, threaded=True).serve_forever()


if __name__ == "__main__":
    serve(buy)
