"""A condition for one's own etcd transaction."""

from __future__ import annotations

from typing import Any, NamedTuple

from lock.etcd.transport import rpc


class Created(NamedTuple):
    """That a key was created at `revision` and not since: for a lock's key, that its owner still holds it.

    `etcd3.Etcd3Client.transaction` takes it in `compare`; for a raw ``TxnRequest`` there is `build_message`.
    """

    key: bytes
    revision: int

    def build_message(self) -> Any:
        """An ``etcdserverpb.Compare``."""
        return rpc.Compare(
            key=self.key, target=rpc.Compare.CREATE, result=rpc.Compare.EQUAL, create_revision=self.revision
        )
