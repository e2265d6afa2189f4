"""Names of builders in the catalogue: the host, and the process on it.

A host's name and a process' id are not enough: every container has a process 1 and may have any name, and ids
are given again. So a name also says which kernel has been running since when, which space of ids the process
belongs to, and when it was started.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

_PROC = Path("/proc")
_ENDED = ("Z", "X")
"""States of processes that are only waited for."""


def builder_name(pid: int) -> str:
    """What the process of this host with this id is called, which must not have been waited for."""
    return f"{_place()}/{_started(pid) or ''}:{pid}"


def has_ended(builder: str) -> bool:
    """Whether this was the name of a process of this host which is no more.

    Of processes elsewhere nothing is known, even where their hosts have this one's name, nor of those that
    ran before this machine did: they are silent soon.
    """
    place, _, process = builder.rpartition("/")
    started, _, pid = process.partition(":")
    if not (started.isdecimal() and pid.isdecimal()) or place != _place():
        return False
    found = _started(int(pid))
    return not _is_there(int(pid)) if found is None else found != started


def _place() -> str:
    """The host, its kernel's life, and the space of its processes' ids."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()[:8]
        space = (_PROC / "self/ns/pid").stat().st_ino
    except OSError:  # another system: then it is not told which processes have ended
        boot, space = "", 0
    return f"{socket.gethostname()}/{boot}.{space}"


def _started(pid: int) -> str | None:
    """When the process with this id was started, in ticks since the machine was.

    Empty for one that has ended, ``None`` where there is none to be seen.
    """
    try:
        said = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "" if said[0] in _ENDED else said[19]


def _is_there(pid: int) -> bool:
    """Whether there is such a process, be it one of another user that is not to be seen."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
