"""Names of builders in the catalogue: the host, and the process on it."""

from __future__ import annotations

import os
import socket


def builder_name(pid: int) -> str:
    """What the process of this host with this id is called."""
    return f"{socket.gethostname()}:{pid}"


def has_ended(builder: str) -> bool:
    """Whether this was the name of a process of this host which is no more."""
    host, _, pid = builder.rpartition(":")
    if host != socket.gethostname() or not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
