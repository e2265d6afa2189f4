"""Snapshots whose rows did not have their digest: a node does not load them again.

One line of JSON for each in the file ``refused-snapshots`` of the store's folder. They are very rare: if the
parts' hashes are right and the rows' digest is not, the build was wrong.
"""

from __future__ import annotations

import os
from pathlib import Path

import orjson

FILE = "refused-snapshots"


def read_rejected(store: Path) -> dict[str, str]:
    """Return the ids with the reasons; lines that cannot be read are skipped."""
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


def add_rejected(store: Path, id: str, reason: str) -> None:
    """Record that a snapshot must not be loaded again. Raises :class:`OSError`."""
    fd = os.open(store / FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, orjson.dumps({"id": id, "reason": reason}) + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)
