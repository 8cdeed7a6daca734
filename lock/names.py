"""Names of locks, and the key prefix that is the queue of a name."""

from lock.errors import InvalidName

LONGEST = 4096  # bytes, so that the janitor's groups of keys stay far below the 1.5 MiB of a request to etcd


def queue_prefix(name: str) -> str:
    """``NAME/``, under which the keys of the queue stand.

    A lock on ``a`` waits for everything under ``a/``, so also for the holder of ``a/b``; ``ab`` is another name. A name
    with an empty part would be a different queue than it seems: ``a/`` is not ``a`` for Go's client.

    Raises InvalidName where it is empty, has an empty part, or is longer than 4096 bytes.
    """
    if not isinstance(name, str):
        raise InvalidName(f"the name of a lock is a text that is not empty, such as 'flash-sale/stock'; got {name!r}")
    length = len(name.encode("utf-8", "surrogateescape"))
    if length > LONGEST:
        raise InvalidName(f"lock name {name[:20]!r}... has {length} bytes: {LONGEST} are the most")
    if "" in name.removeprefix("/").split("/"):
        tidy = "/" * name.startswith("/") + ("/".join(filter(None, name.split("/"))) or "flash-sale/stock")
        raise InvalidName(f"lock name {name!r} has an empty part: write {tidy!r}")
    return f"{name}/"
