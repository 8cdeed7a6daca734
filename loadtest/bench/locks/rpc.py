"""The lock RPC of the etcd server, which jetcd and others call; etcd3 has no stubs for it."""

from __future__ import annotations

import grpc

_KEY_OF_LOCK_RESPONSE = 2
_LENGTH_DELIMITED = 2


class LockRpc:
    """Locks a name by the server's own queue. Each lock needs a lease of its own: a shared one would share the key."""

    def __init__(self, endpoint: str) -> None:
        self._channel = grpc.insecure_channel(endpoint)
        self._lock = self._channel.unary_unary("/v3lockpb.Lock/Lock")
        self._unlock = self._channel.unary_unary("/v3lockpb.Lock/Unlock")

    def lock(self, name: str, lease_id: int, *, timeout: float) -> bytes:
        """Wait for the lock; the key that holds it. Raises grpc.RpcError."""
        request = _field(1, name.encode()) + b"\x10" + _varint(lease_id)
        return _read_field(self._lock(request, timeout=timeout), _KEY_OF_LOCK_RESPONSE)

    def unlock(self, key: bytes, *, timeout: float) -> None:
        """Free it. Raises grpc.RpcError."""
        self._unlock(_field(1, key), timeout=timeout)

    def close(self) -> None:
        """Hang up."""
        self._channel.close()


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(content)) + content


def _read_field(message: bytes, wanted: int) -> bytes:
    """The content of one field of a message whose fields are all length-delimited."""
    position = 0
    while position < len(message):
        tag, position = _read_varint(message, position)
        length, position = _read_varint(message, position)
        if tag >> 3 == wanted:
            return message[position : position + length]
        position += length
    raise ValueError(f"the answer has no field {wanted}")


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[position]
        number |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return number, position
