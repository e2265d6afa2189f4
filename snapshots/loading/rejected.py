"""Snapshots whose rows did not give their digest: a node takes none of them again.

One line of JSON for each in the file ``refused-snapshots`` of the store's folder. There are next to none:
where the parts' hashes hold and the rows' digest does not, whatever built the snapshot is at fault.
"""

from __future__ import annotations

import os
from pathlib import Path

import orjson

FILE = "refused-snapshots"


def refused_in(store: Path) -> dict[str, str]:
    """The ids with the reasons; lines that cannot be read are left out."""
    try:
        lines = (store / FILE).read_bytes().splitlines()
    except OSError:
        return {}
    found: dict[str, str] = {}
    for line in lines:
        try:
            said = orjson.loads(line)
            found[str(said["id"])] = str(said["reason"])
        except (ValueError, KeyError, TypeError):
            continue
    return found


def refuse(store: Path, id: str, reason: str) -> None:
    """Keep that a snapshot is not to be taken again. Raises :class:`OSError`."""
    fd = os.open(store / FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, orjson.dumps({"id": id, "reason": reason}) + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)
