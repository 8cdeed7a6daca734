"""Which functions can be decorated with a lock: those whose body has run when the call is over."""

import inspect
from collections.abc import Callable
from typing import Any


def check_runs_when_called(function: Callable[..., Any]) -> None:
    """Refuse, with a TypeError, what returns at once and would run its body when the lock is released."""
    if _is_coroutine_function(function):
        raise TypeError(f"{function!r} is a coroutine function, whose body runs later: use the lock of lock.aio")


def check_runs_when_awaited(function: Callable[..., Any]) -> None:
    """Refuse, with a TypeError, what is no coroutine function: its body would run if it is not awaited."""
    if not _is_coroutine_function(function):
        raise TypeError(f"{function!r} is not a coroutine function (async def): use the lock of lock, not of lock.aio")


def _is_coroutine_function(function: Callable[..., Any]) -> bool:
    if not callable(function):
        raise TypeError(f"synchronized decorates a function; got {function!r}")
    bodies = function, getattr(function, "__call__", None)  # noqa: B004  (an object with such a __call__)
    if any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in bodies):
        raise TypeError(f"{function!r} is a generator, whose body runs later: lock inside of it with `with`")
    return any(map(inspect.iscoroutinefunction, bodies))
