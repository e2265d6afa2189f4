"""Searches for duplicates, each in a process of its own that ends with its answer."""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
from collections.abc import AsyncGenerator
from contextlib import suppress

import orjson

from registry.base.config.settings import Settings
from registry.base.processes import file_lock
from registry.base.processes.child_process import module_command
from registry.domain.errors import TOO_MANY_REQUESTS, UNAVAILABLE

from .contract import SearchRequest

# After which the progress is repeated: only what is written to a client shows that it has gone.
REPEATED_S = 0.5
RETRY_S = 5
# A line holds a group.
_LINE_BYTES_MAX = 4 << 20
_ENDED = "The process that searched ended before it was done; try again"
_PROGRESS = b'{"progress":'
_LAST = (b'{"found":', b'{"error":')


class SearchProcesses:
    """The :class:`.contract.Searches` of a host.

    A lock file makes them one at a time, in all processes of the host. The searching process inherits the
    lock, so that it is free again as soon as that process has ended, however it ends.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def lines(self, wanted: SearchRequest) -> AsyncGenerator[bytes]:
        """Search, see :meth:`.contract.Searches.lines`."""
        process, ours = await self._start_process()
        channel: socket.socket | asyncio.StreamWriter = ours
        line = progress = _line({"progress": {"step": "starting", "done": 0, "total": 0}})
        try:
            yield line
            received, channel = await asyncio.open_unix_connection(sock=ours, limit=_LINE_BYTES_MAX)
            given = {"settings": self._settings, "endpoint": "", "parent": os.getpid(), "request": wanted}
            message = pickle.dumps(given)
            channel.write(len(message).to_bytes(4, "big") + message)
            while not (line := await _next(received, progress)).startswith(_LAST):
                progress = line if line.startswith(_PROGRESS) else progress
                yield line
        finally:
            channel.close()
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        # A client that has read the end may search again at once, so the lock is free by then.
        yield line

    async def _start_process(self) -> tuple[asyncio.subprocess.Process, socket.socket]:
        try:
            lock = file_lock.hold(self._settings.data / "duplicates.lock")
        except file_lock.LockHeld:
            busy = "Another search for duplicates is running on this server; try again when it has ended"
            raise TOO_MANY_REQUESTS(busy).with_retry_after(RETRY_S) from None
        except OSError as error:
            raise UNAVAILABLE(f"Cannot search for duplicates: {error}") from error
        ours, theirs = socket.socketpair()
        try:
            command, environment = module_command("registry.duplicates.process", str(theirs.fileno()))
            process = await asyncio.create_subprocess_exec(
                *command, pass_fds=(theirs.fileno(), lock), env=environment, stdin=asyncio.subprocess.DEVNULL
            )
        except BaseException as error:
            ours.close()
            if isinstance(error, OSError):
                raise UNAVAILABLE(f"Cannot search for duplicates: {error}") from error
            raise
        finally:
            theirs.close()
            os.close(lock)
        return process, ours


async def _next(received: asyncio.StreamReader, progress: bytes) -> bytes:
    """Return the next line; if it takes long, the last line of progress."""
    try:
        line = await asyncio.wait_for(received.readline(), REPEATED_S)
    except TimeoutError:
        return progress
    except (OSError, ValueError):
        line = b""
    return line if line.endswith(b"\n") else _line({"error": {"error_code": 503, "message": _ENDED}})


def _line(fact: dict[str, object]) -> bytes:
    return orjson.dumps(fact) + b"\n"
