"""The `shop/urls.py` of a project made by `django-admin startproject shop`, with `locks.py` beside it."""

from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path
from shop.locks import live_session

from lock import LockTimeout, Mutex


@transaction.non_atomic_requests  # for ATOMIC_REQUESTS, which would commit after the release
def buy(request: HttpRequest) -> HttpResponse:
    """Sell a pen; the transaction begins and ends under the lock."""
    try:
        with Mutex(live_session(), "docs/pens").acquire(timeout=5) as hold, transaction.atomic(durable=True):
            with connection.cursor() as database:
                database.execute("SELECT pens FROM stock")
                [left] = database.fetchone()
                if left:
                    database.execute("UPDATE stock SET pens = %s", [left - 1])
            hold.ensure()  # raises, and so rolls back, if the lock is known to be lost
    except LockTimeout as busy:
        return HttpResponse(str(busy), status=503)
    return HttpResponse("sold" if left else "sold out")


urlpatterns = [path("buy", buy)]
