"""Which functions can be decorated with a lock: those whose body has run when the call is over."""

import inspect
from collections.abc import Callable
from typing import Any


def check_decorated(function: Callable[..., Any], *, is_awaited: bool) -> None:
    """Refuse, with a TypeError, what would run its body when the lock is released."""
    if not callable(function):
        raise TypeError(f"synchronized decorates a function; got {function!r}")
    bodies = function, getattr(function, "__call__", None)  # noqa: B004  (an object with such a __call__)
    if any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in bodies):
        raise TypeError(f"{function!r} is a generator, whose body runs later: lock inside of it with `with`")
    is_coroutine = any(map(inspect.iscoroutinefunction, bodies))
    if is_coroutine and not is_awaited:
        raise TypeError(f"{function!r} is a coroutine function, whose body runs later: use the lock of lock.aio")
    if is_awaited and not is_coroutine:
        raise TypeError(f"{function!r} is not a coroutine function (async def): use the lock of lock, not of lock.aio")
