"""New rows of many batches on the disk, and the process that puts them in order in the end.

The process gets the file, and the places of the rows in it as one message on standard input. It answers with
messages that hold lists of rows, the last of which is empty. It has a memory of its own, which is less than
what the process before it keeps.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

import msgspec

from registry.base.processes.child_process import module_command, receive, send
from registry.domain.rows.digest import total

Row = tuple[bytes, bytes]

# The maximum for unprivileged users; with a smaller pipe, two processes wait for each other more often.
PIPE_BYTES = 1 << 20

# What is read at once of a batch's rows: of each batch, so much may wait in memory for the rows of others.
_BLOCK_BYTES, _BLOCK_ROWS_MAX = 32 << 10, 128
# Rows of a message: where keys end of which each batch has some, many come at once.
_ROWS_MAX = 2_048
# Bytes of blocks that are put in order together.
_TOGETHER_BYTES = 1 << 20

_key, _value = itemgetter(0), itemgetter(1)
_encode = msgspec.msgpack.Encoder().encode
decode_rows = msgspec.msgpack.Decoder(list[Row]).decode


class Block(NamedTuple):
    """Rows of one batch, in order."""

    # The key of its first row.
    first: bytes
    position: int
    size: int


class Spool:
    """Rows with distinct keys, in a file without a name in ``folder``, which goes with this process.

    Raises :class:`OSError`.
    """

    def __init__(self, folder: Path) -> None:
        self._file = TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 (until close)
        self._blocks: list[Block] = []
        # Bytes in the file, and the sum of the hashes of its rows.
        self.size = self.hashes = 0

    def add(self, rows: Sequence[Row]) -> None:
        """Add a batch of rows, in any order."""
        if not rows:
            return
        ordered = sorted(rows, key=_key)
        self.hashes += total(ordered)
        size = sum(map(len, map(_value, ordered)))
        step = max(1, min(_BLOCK_ROWS_MAX, _BLOCK_BYTES * len(ordered) // max(1, size)))
        packed: list[bytes] = []
        for begun in range(0, len(ordered), step):
            packed.append(_encode(ordered[begun : begun + step]))
            self._blocks.append(Block(ordered[begun][0], self.size, len(packed[-1])))
            self.size += len(packed[-1])
        self._write(b"".join(packed))

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) or 0 :]

    def sorter(self) -> subprocess.Popen[bytes]:
        """Start the process that puts the rows in order."""
        file = self._file.fileno()
        command, environment = module_command("registry.store.folding.spool", str(file))
        process = subprocess.Popen(  # noqa: S603 (our own module)
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            pipesize=PIPE_BYTES,
            pass_fds=(file,),
        )
        assert process.stdin is not None
        send(process.stdin, _encode(self._blocks))
        return process

    def close(self) -> None:
        """Remove the rows."""
        self._file.close()


def merge(file: int, blocks: Iterable[Block]) -> Iterator[list[Row]]:
    """Yield the rows of the blocks in a file, in the order of keys, in lists of a few thousand."""
    waiting: list[Row] = []
    for group, bound in _groups(sorted(blocks)):
        for block in group:
            waiting += decode_rows(os.pread(file, block.size, block.position))
        # This merges the rows that wait and the blocks, each of which is in order.
        waiting.sort(key=_key)
        end = len(waiting) if bound is None else bisect_left(waiting, bound, key=_key)
        for begun in range(0, end, _ROWS_MAX):
            yield waiting[begun : min(begun + _ROWS_MAX, end)]
        del waiting[:end]


def _groups(blocks: Iterable[Block]) -> Iterator[tuple[list[Block], bytes | None]]:
    """Yield blocks to read together, and the first key of the next ones, if there are any."""
    group: list[Block] = []
    size = 0
    for block in blocks:
        if size >= _TOGETHER_BYTES:
            yield group, block.first
            group, size = [], 0
        group.append(block)
        size += block.size
    if group:
        yield group, None


def main() -> None:
    """Put the rows of a spool in order, whose file is named on the command line by its descriptor."""
    gc.disable()
    blocks = msgspec.msgpack.decode(receive(sys.stdin.buffer) or b"", type=list[Block])
    for rows in merge(int(sys.argv[1]), blocks):
        send(sys.stdout.buffer, _encode(rows))
    send(sys.stdout.buffer, _encode([]))


if __name__ == "__main__":
    main()
