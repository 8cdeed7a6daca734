"""A file to which the threads of one process append by memory: without a system call, and yet it survives a kill -9."""

from __future__ import annotations

import mmap
import os
import threading
from contextlib import suppress
from pathlib import Path

CHUNK = 256 * 1024  # bytes; a multiple of every page size


class MappedFile:
    """Appends whole lines to a file. Thread-safe.

    The file grows by chunks of zeros, which are written before they are mapped: on a full disk that is an OSError, and
    a store into a hole would be a SIGBUS. It is never cut, so a reader stops at its first zero.

    A system call gives up the interpreter, and so does a lock that another thread holds; with many threads it takes
    long to get it back. `mmap.write` copies a line and moves the position without giving it up, so it needs neither.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the file, and go on behind what an earlier process of that name wrote; raises OSError."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        self._begin = max(os.fstat(self._file).st_size - 1, 0) // CHUNK * CHUNK  # of the last chunk, which is mapped
        self._growing = threading.Lock()
        try:
            self._chunk = self._map(self._begin)
        except OSError:
            os.close(self._file)
            raise
        if written := (self._chunk[:] + b"\0").index(b"\0"):
            self._chunk.seek(written)
            self.append(b"\n")  # what was killed may have left half a line

    @property
    def size(self) -> int:
        """Bytes that were written, those of earlier processes included."""
        return self._begin + self._chunk.tell()

    def append(self, line: bytes) -> None:
        """Append a line, which ends with a newline and fits into a chunk; raises OSError, and nothing is written."""
        while True:
            chunk = self._chunk
            try:
                chunk.write(line)
                return
            except ValueError:  # it does not fit
                self._follow(chunk)

    def _follow(self, full: mmap.mmap) -> None:
        """Map the next chunk, unless another thread has done it."""
        with self._growing:
            if self._chunk is not full:
                return
            following = self._map(self._begin + CHUNK)
            while rest := CHUNK - full.tell():
                with suppress(ValueError):  # meanwhile another thread has written a shorter line
                    full.write(b"\n" * rest)  # an empty line says nothing
            self._chunk, self._begin = following, self._begin + CHUNK

    def _map(self, begin: int) -> mmap.mmap:
        """The chunk from `begin` on, filled up with zeros if the file ends inside it."""
        while (size := os.fstat(self._file).st_size) < begin + CHUNK:
            os.pwrite(self._file, bytes(begin + CHUNK - size), size)
        return mmap.mmap(self._file, CHUNK, offset=begin)

    def close(self) -> None:
        """Close it, with the zeros at its end."""
        self._chunk.close()
        os.close(self._file)
