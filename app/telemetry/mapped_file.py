"""A file to which one process appends by memory: without a system call, and yet it survives a kill -9."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

CHUNK = 256 * 1024  # bytes; a multiple of every page size


class MappedFile:
    """Appends whole lines to a file. Not thread-safe.

    The file grows by chunks of zeros, which are written before they are mapped: on a full disk that is an OSError, and
    a store into a hole would be a SIGBUS. It is never cut, so a reader stops at its first zero.

    A system call gives up the interpreter, and with many threads it takes long to get it back; a store does not.

    Attributes:
        size: bytes that were written, those of earlier processes included.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the file, and go on behind what an earlier process of that name wrote; raises OSError."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        self._begin = os.fstat(self._file).st_size // CHUNK * CHUNK  # of the chunk that is mapped
        self._chunk: mmap.mmap | None = None
        self._at = 0  # in the chunk
        self.size = self._begin

    def append(self, line: bytes) -> None:
        """Append a line, which ends with a newline and fits into a chunk; raises OSError, and nothing is written."""
        if self._chunk is None:
            self._chunk = self._map(self._begin)
            self._at = (self._chunk[:] + b"\0").index(b"\0")
            line = b"\n" + line if self._at else line  # what was killed may have left half a line
        end = self._at + len(line)
        if end > CHUNK:
            following = self._map(self._begin + CHUNK)
            self._chunk[self._at :] = b"\n" * (CHUNK - self._at)  # an empty line says nothing
            self._chunk.close()
            self._chunk, self._begin, self._at, end = following, self._begin + CHUNK, 0, len(line)
        self._chunk[self._at : end] = line
        self._at, self.size = end, self._begin + end

    def _map(self, begin: int) -> mmap.mmap:
        """The chunk from `begin` on, filled up with zeros where the file ends inside it."""
        while (size := os.fstat(self._file).st_size) < begin + CHUNK:
            os.pwrite(self._file, bytes(begin + CHUNK - size), size)
        return mmap.mmap(self._file, CHUNK, offset=begin)

    def close(self) -> None:
        """Close it, with the zeros at its end."""
        if self._chunk is not None:
            self._chunk.close()
        os.close(self._file)
