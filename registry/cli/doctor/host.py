"""Examination of this host: the data folder, the disk, certificates, open ports."""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from registry.base.config.settings import Settings
from registry.base.processes import file_lock
from registry.cli.doctor import Finding, error, fine, unknown, warning
from registry.log.embedded.layout import is_absent
from registry.security import exposure
from registry.security.setting_files import file_errors, url_error
from registry.security.tls import expiry
from registry.store.layout import read_current

_GIB = 1 << 30
# A store that is rebuilt, or a snapshot that is built, takes the space of the store once more.
_FREE_LEAST = _GIB
_USED_MOST = 0.8
_FILES_MAX = 100_000


def examine_host(settings: Settings) -> Iterator[Finding]:
    """Yield what is found on this host; nothing is changed."""
    try:
        yield from _user_of_command(settings)
        yield from _data_folder(settings)
    except OSError as problem:
        # A folder of another user, or a file that a running node has just removed.
        text = f"{problem.filename or settings.data} cannot be examined: {problem.strerror}"
        yield unknown("data", text, "run this as the user of the node")
    yield from _files(settings)
    yield from _certificates(settings)
    for text in exposure.warnings(settings):
        yield warning("access", text)


def _data_folder(settings: Settings) -> Iterator[Finding]:
    data = settings.data
    if not data.exists():
        parent = next(each for each in data.absolute().parents if each.exists())
        if not os.access(parent, os.W_OK | os.X_OK):
            yield error("data", f"{data} does not exist, and {_me()} may not create it in {parent}")
        else:
            yield fine("data", f"{data} does not exist yet; a node creates it")
            yield from _disk(parent, 0)
        return
    if not data.is_dir():
        yield error("data", f"{data} is not a folder", "name another one in the setting data")
        return
    yield from _owners(data)
    yield from _lock(data)
    yield from _log(settings)
    yield from _store(settings)


def _owners(data: Path) -> Iterator[Finding]:
    """Look for files of other users, which a start by the wrong user leaves."""
    owner = data.stat().st_uid
    if not os.access(data, os.R_OK | os.W_OK | os.X_OK):
        yield warning(
            "data",
            f"{_me()} may not write {data}, which belongs to {_user(owner)}",
            f"run the node, and this command, as {_user(owner)}; or change the owner of the folder",
        )
        return
    others = _files_of_others(data, owner)
    if others:
        yield error(
            "data",
            f"{len(others)} files in {data}, such as {others[0]}, belong to "
            f"{_user(others[0].lstat().st_uid)}, the folder to {_user(owner)}: no node can write them all",
            f"chown -R {_user(owner)} {data}",
        )
    else:
        yield fine("data", f"{data} belongs to {_user(owner)} with all its files")


def _files_of_others(data: Path, owner: int) -> list[Path]:
    return [path for path in islice(data.rglob("*"), _FILES_MAX) if _owner(path) not in (None, owner)]


def _owner(path: Path) -> int | None:
    """Return the owner of a file; ``None`` if a running node has removed it meanwhile."""
    try:
        return path.lstat().st_uid
    except FileNotFoundError:
        return None


def _lock(data: Path) -> Iterator[Finding]:
    lock = data / "store" / "lock"
    if not lock.exists():
        return
    holder = file_lock.holder(lock)
    shown = "no process has the store open" if holder is None else f"process {holder} has the store open"
    yield fine("data", shown)


def _log(settings: Settings) -> Iterator[Finding]:
    """Look for the log of a node without Kafka, which refuses to start if it is lost."""
    data = settings.data
    if settings.kafka or not is_absent(data / "log"):
        return
    left = data / "snapshots" if read_current(data / "store") is None else data / "store"
    if left.name == "store" or any(left.glob("*/manifest.json")):
        yield error(
            "data",
            f"there is no log in {data / 'log'}, but what was made of one in {left}",
            "name the brokers (kafka) if the log is a topic; otherwise restore a backup or a snapshot",
        )


def _store(settings: Settings) -> Iterator[Finding]:
    used = 0
    current = read_current(settings.data / "store")
    if current is not None:
        file = settings.data / "store" / current.name / "data.mdb"
        used = file.stat().st_blocks * 512 if file.exists() else 0
        share = used / settings.store_map_bytes
        text = f"the store uses {_size(used)} of store_map_bytes = {_size(settings.store_map_bytes)}"
        if share > _USED_MOST:
            yield warning("data", text, "raise store_map_bytes and restart the node; the file is sparse")
        else:
            yield fine("data", text)
    yield from _disk(settings.data, used)


def _disk(folder: Path, used: int) -> Iterator[Finding]:
    free, needed = shutil.disk_usage(folder).free, max(_FREE_LEAST, 2 * used)
    text = f"{_size(free)} are free on the disk of {folder}"
    if free < needed:
        yield warning(
            "disk",
            f"{text}; to rebuild the store or build a snapshot, {_size(needed)} should be",
            "free space, or move the data folder to a larger disk",
        )
    else:
        yield fine("disk", text)


def _files(settings: Settings) -> Iterator[Finding]:
    errors = file_errors(settings)
    for text in filter(None, errors.values()):
        yield error(
            "files", text, "correct it: a running node keeps the last valid content, but the next start fails"
        )
    if text := url_error(settings):
        yield warning(
            "files",
            text,
            "a node keeps the keys that it has; one that starts accepts no tokens until it gets them",
        )
    if errors and not any(errors.values()):
        yield fine("files", f"a start would accept the files of {', '.join(errors)}")


def _certificates(settings: Settings) -> Iterator[Finding]:
    for text in expiry.warnings(settings):
        yield warning("certificates", text, "renew it; nodes read changed files again within seconds")
    known = list(expiry.expiries(settings))
    if known:
        first = min(known, key=lambda each: each.moment)
        yield fine("certificates", f"{first.file} is the first to expire, on {first.moment:%Y-%m-%d}")


def _user_of_command(settings: Settings) -> Iterator[Finding]:
    """Yield a finding if this command runs as root: what it may do then says little about the node."""
    if os.geteuid() == 0 and settings.data.exists() and settings.data.stat().st_uid != 0:
        yield unknown(
            "data",
            f"this command runs as root, the data folder belongs to {_user(settings.data.stat().st_uid)}: "
            "files that only root may read are not noticed",
            "run it as the user of the node",
        )


def _me() -> str:
    name = _user(os.geteuid())
    return name if name.startswith("user ") else f"the user {name}"  # who may be called nobody


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _size(size: int) -> str:
    value = float(size)
    for unit in ("bytes", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"
