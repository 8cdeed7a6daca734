"""Reset a sale, and buy as buyers who retry with their idempotency key until they are served; JSON lines tell it all.

Runs inside the cluster, on nothing but Python's library: ``python retrying_buyers.py SHOP_URL STOCK BUYERS HOLD_MS``.
The first line is printed once the sale is reset, and then one for each buyer.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from typing import Any

CLICK_S, RETRY_S = 70, 1.0  # longer than a shop lets a buyer wait for the lock; pause before the next try
PATIENCE_S = 200.0  # after which a buyer gives up


def main(shop: str, stock: int, buyers: int, hold_ms: int) -> None:
    """Print one line for the reset, and one for each buyer."""
    token = {"Authorization": f"Bearer {os.environ.get('FLASHSALE_ADMIN_TOKEN', '')}"}
    body = json.dumps({"stock": stock}).encode()
    reset = urllib.request.Request(f"{shop}/stock/reset", body, {"Content-Type": "application/json", **token})
    urllib.request.urlopen(reset, timeout=10).close()
    print(json.dumps({"reset": stock}), flush=True)
    with ThreadPoolExecutor(buyers) as pool:
        for served in pool.map(lambda number: buy(shop, f"buyer-{number}", hold_ms=hold_ms), range(buyers)):
            print(json.dumps(served), flush=True)


def buy(shop: str, buyer: str, *, hold_ms: int) -> dict[str, Any]:
    """Buy until served: the buyer, the last outcome, the order, and how many tries it took."""
    deadline, tries = time.monotonic() + PATIENCE_S, 0
    while True:
        answer = click(f"{shop}/stock/reduce?guard=etcd&hold_ms={hold_ms}&buyer={buyer}", buyer)
        tries += 1
        outcome = str(answer.get("outcome", "no answer"))
        if outcome in ("sold", "sold_out") or time.monotonic() > deadline:
            return {"buyer": buyer, "outcome": outcome, "order": answer.get("order"), "tries": tries}
        time.sleep(RETRY_S)


def click(url: str, key: str) -> dict[str, Any]:
    """The answer to one request; empty if there is none."""
    request = urllib.request.Request(url, headers={"Idempotency-Key": key}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=CLICK_S) as response:
            return dict(json.load(response))
    except urllib.error.HTTPError as refusal:
        with suppress(OSError, ValueError):
            return dict(json.load(refusal))
    except (OSError, ValueError, HTTPException):
        pass
    return {}


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
