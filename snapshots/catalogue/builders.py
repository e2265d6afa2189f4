"""Names of builders in the catalogue: the host, and the process on it.

A host's name and a process id are not enough: every container has a process 1 and may have any name, and ids
are reused. So a name also holds the kernel's boot id, the process' id namespace, and its start time.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

_PROC = Path("/proc")
# States of processes that have ended but have not been waited for.
_ENDED = ("Z", "X")


def builder_name(pid: int) -> str:
    """Return the name of a process of this host, which must not have been waited for."""
    return f"{_host()}/{_start_time(pid) or ''}:{pid}"


def has_ended(builder: str) -> bool:
    """Return whether this names a process of this host that has ended.

    False for processes of other hosts, even with this host's name, and for those before this machine's boot:
    nothing is known about them, but their heartbeats stop.
    """
    host, _, process = builder.rpartition("/")
    started, _, pid = process.partition(":")
    if not (started.isdecimal() and pid.isdecimal()) or host != _host():
        return False
    found = _start_time(int(pid))
    return not _exists(int(pid)) if found is None else found != started


def _host() -> str:
    """Return the host, its kernel's boot id, and its process id namespace."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()[:8]
        space = (_PROC / "self/ns/pid").stat().st_ino
    except OSError:  # another system: then ended processes are not recognised
        boot, space = "", 0
    return f"{socket.gethostname()}/{boot}.{space}"


def _start_time(pid: int) -> str | None:
    """Return when a process was started, in clock ticks since boot.

    Empty if it has ended, ``None`` if it is not visible.
    """
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "" if fields[0] in _ENDED else fields[19]


def _exists(pid: int) -> bool:
    """Return whether a process exists, including invisible ones of other users."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
