"""The sockets of a host: the public port, and the temporary folder of its node's socket.

A killed parent cannot delete its folder, so the next one does. A lock in each folder, which the system
releases with its process, shows whether its parent is still running.
"""

from __future__ import annotations

import os
import resource
import shutil
import socket
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from registry.base.config.addresses import ListenAddress

from .file_lock import LockHeld, hold

_PREFIX = "registrar-"
_LOCK = "parent.lock"


# Files of a process besides its connections: store, log, workers, peers.
_OTHER_FILES = 512


class ListenError(OSError):
    """An address on which this process cannot listen; the text is for the user."""


def listen_on_all(
    addresses: Iterable[ListenAddress], *, shared: bool
) -> list[tuple[ListenAddress, socket.socket]]:
    """Return a bound socket for each address, as :func:`listen`. Raises :class:`ListenError`."""
    bound: list[tuple[ListenAddress, socket.socket]] = []
    for address in addresses:
        try:
            bound.append((address, listen(address.host, address.port, shared=shared)))
        except OSError as error:
            for _, each in bound:
                each.close()
            place = str(address).partition("://")[2]
            raise ListenError(f"cannot listen on {place}: {error.strerror or error}") from error
    return bound


def allow_open_files(connections_max: int) -> str:
    """Raise the limit of open files, of this process and its children, to what connections need.

    Return a warning if the system allows fewer; empty if not. Systems begin with 1,024 and allow more.
    """
    wanted = connections_max + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed == wanted:
        return ""
    return (
        f"a process may open {hard} files, and connections_max = {connections_max} needs {wanted}: raise the "
        "limit (ulimit -Hn, LimitNOFILE of systemd), or lower connections_max"
    )


def listen(host: str, port: int, *, shared: bool) -> socket.socket:
    """Return a bound TCP socket.

    ``shared``: other processes of this user may bind the same port, and the kernel distributes connections.
    Raises :class:`OSError` if the port is taken or the address is not one of this host.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind(address)
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return bound


@contextmanager
def runtime_folder() -> Iterator[Path]:
    """Yield a new folder that only this user can enter; delete it afterwards. Raises :class:`OSError`."""
    _remove_abandoned(Path(tempfile.gettempdir()))
    folder, lock = _new_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _new_folder() -> tuple[Path, int]:
    """Return a new folder and the descriptor of its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # Until the lock is held, another parent that starts takes this folder for an abandoned one.
        try:
            lock = hold(folder / _LOCK)
        except (LockHeld, FileNotFoundError):
            continue
        if _is_open(folder / _LOCK, lock):
            return folder, lock
        os.close(lock)


def _is_open(file: Path, fd: int) -> bool:
    """Check that ``fd`` is of the file that has this path now."""
    try:
        return os.path.samestat(file.lstat(), os.fstat(fd))
    except FileNotFoundError:
        return False


def _remove_abandoned(parent: Path) -> None:
    """Delete this user's folders in ``parent`` whose process has ended."""
    for folder in parent.glob(f"{_PREFIX}*"):
        try:
            # Do not follow links: in a shared folder, another user may have created them.
            if folder.lstat().st_uid != os.getuid() or not (folder / _LOCK).is_file():
                continue
            lock = hold(folder / _LOCK)
        except (LockHeld, OSError):
            continue
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
