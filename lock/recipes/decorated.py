"""Which functions can be decorated with a lock: those whose body has run when the call is over."""

import inspect
from collections.abc import Callable
from typing import Any


def check_runs_when_called(function: Callable[..., Any]) -> None:
    """Refuse what returns at once and would run its body when the lock is released.

    Raises:
        TypeError: it is not callable, or a coroutine function, a generator or an asynchronous generator.
    """
    if _is(function, inspect.iscoroutinefunction):
        raise TypeError(f"{function!r} is a coroutine function, whose body runs later: use the lock of lock.aio")
    _refuse_generators(function)


def check_runs_when_awaited(function: Callable[..., Any]) -> None:
    """Refuse what is no coroutine function: its body would run elsewhere than where it is awaited.

    Raises:
        TypeError: it is not a coroutine function.
    """
    _refuse_generators(function)
    if not _is(function, inspect.iscoroutinefunction):
        raise TypeError(f"{function!r} is not a coroutine function (async def): use the lock of lock, not of lock.aio")


def _refuse_generators(function: Callable[..., Any]) -> None:
    if not callable(function):
        raise TypeError(f"synchronized decorates a function; got {function!r}")
    if _is(function, inspect.isgeneratorfunction) or _is(function, inspect.isasyncgenfunction):
        raise TypeError(f"{function!r} is a generator, whose body runs later: lock inside of it with `with`")


def _is(function: Callable[..., Any], test: Callable[[Any], bool]) -> bool:
    return test(function) or test(getattr(function, "__call__", None))  # noqa: B004 (an object with such a __call__)
