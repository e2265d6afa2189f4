"""Files of a folder, on disk or at a git revision, within limits."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from .contents import MANIFEST, FolderError
from .reading import Tree, is_schema

FILE_BYTES_MAX: Final = 16 * 1024 * 1024
FILES_MAX: Final = 100_000
_TOTAL_BYTES_MAX: Final = 1024 * 1024 * 1024
_DEPTH_MAX: Final = 64
_GIT_TIMEOUT_S: Final = 60.0


def on_disk(folder: Path, *, deep: bool = True) -> Tree:
    """Return the schemas and the manifest below a folder; hidden files and folders are left out.

    ``deep``: with those of the folders in it. Raises :class:`.contents.FolderError`, also for symbolic links,
    which could lead anywhere.
    """
    budget, tree = _Budget(), {}
    try:
        for path in _walk(folder, 0, deep=deep):
            name = path.relative_to(folder).as_posix()
            if name == MANIFEST or is_schema(name):
                tree[name] = _read(path, budget)
    except OSError as error:
        raise FolderError(f"cannot read {error.filename or folder}: {error.strerror}") from None
    return tree


def file_on_disk(path: Path) -> bytes:
    """Return the contents of one file. Raises :class:`.contents.FolderError`."""
    try:
        return _read(path, _Budget())
    except OSError as error:
        raise FolderError(f"cannot read {path}: {error.strerror}") from None


def _walk(folder: Path, depth: int, *, deep: bool) -> Iterator[Path]:
    if depth > _DEPTH_MAX:
        raise FolderError(f"{folder} is more than {_DEPTH_MAX} folders deep")
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            path = Path(entry.path)
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if deep:
                    yield from _walk(path, depth + 1, deep=deep)
            elif entry.is_symlink() and (path.is_dir() or is_schema(entry.name) or entry.name == MANIFEST):
                raise FolderError(
                    f"{path} is a symbolic link, which is not followed: put the file in its place"
                )
            else:
                yield path


def _read(path: Path, budget: _Budget) -> bytes:
    # A pipe would block, and a device never end.
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise FolderError(f"{path} is not a regular file")
        budget.spend(str(path), status.st_size)
        return opened.read(FILE_BYTES_MAX)


def write(folder: Path, tree: Tree, replaced: Collection[str] = ()) -> list[str]:
    """Write the files of ``tree`` that differ; return the paths that changed.

    ``replaced``: files to remove. Each file is replaced at once. Raises :class:`.contents.FolderError`.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        present = on_disk(folder)
        changed = sorted(path for path in tree if present.get(path) != tree[path])
        for path in changed:
            _replace(folder / path, tree[path])
        stale = sorted(present.keys() & set(replaced))
        for path in stale:
            (folder / path).unlink()
    except OSError as error:
        raise FolderError(f"cannot write {error.filename or folder}: {error.strerror}") from None
    return [*changed, *stale]


def _replace(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name[:200]}.part")
    part.unlink(missing_ok=True)  # of an interrupted run, or a link that leads out of the folder
    with part.open("xb") as file:
        file.write(data)
    part.replace(path)


class _Budget:
    """The number of files and bytes that may still be read."""

    def __init__(self) -> None:
        self._files, self._bytes = FILES_MAX, _TOTAL_BYTES_MAX

    def spend(self, path: str, size: int) -> None:
        if size > FILE_BYTES_MAX:
            raise FolderError(f"{path} is larger than {FILE_BYTES_MAX // 1024 // 1024} MiB")
        self._files -= 1
        self._bytes -= size
        if self._files < 0:
            raise FolderError(f"there are more than {FILES_MAX} schemas in the folder")
        if self._bytes < 0:
            raise FolderError(f"the folder's schemas exceed {_TOTAL_BYTES_MAX // 1024 // 1024} MiB")


def at_revision(folder: Path, revision: str) -> Tree:
    """Return the same of a git revision; nothing if the folder does not exist there.

    ``folder``: in a work tree. Raises :class:`.contents.FolderError`.
    """
    where = folder if folder.is_dir() else folder.parent
    commit = _git(where, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if commit is None:
        raise FolderError(f"{revision} is not a revision of the git repository that {where} lies in")
    listed = _git(where, "ls-tree", "-r", "-l", "-z", commit.decode().strip(), "--", ".") or b""
    blobs = [blob for each in listed.split(b"\0") if each and (blob := _blob(each)) is not None]
    budget = _Budget()
    for blob in blobs:
        budget.spend(blob.path, blob.size)
    return dict(zip((each.path for each in blobs), _contents(where, blobs), strict=True))


class _Blob(NamedTuple):
    path: str
    name: str
    size: int


def _blob(line: bytes) -> _Blob | None:
    about, _, raw_path = line.partition(b"\t")
    mode, kind, name, size = about.split()
    path = os.fsdecode(raw_path)
    hidden = any(part.startswith(".") for part in path.split("/"))
    if hidden or kind != b"blob" or not (path == MANIFEST or is_schema(path)):
        return None
    if mode == b"120000":
        raise FolderError(f"{path} is a symbolic link in git, which is not followed")
    return _Blob(path, name.decode(), int(size))


def _contents(folder: Path, blobs: list[_Blob]) -> Iterator[bytes]:
    asked = "".join(f"{each.name}\n" for each in blobs).encode()
    found = _git(folder, "cat-file", "--batch", data=asked) or b""
    at = 0
    for blob in blobs:
        start = found.index(b"\n", at) + 1
        yield found[start : start + blob.size]
        at = start + blob.size + 1


def _git(folder: Path, *words: str, data: bytes = b"") -> bytes | None:
    """Return what git prints; ``None`` if it fails in silence. Raises :class:`.contents.FolderError`."""
    try:
        done = subprocess.run(  # noqa: S603 - arguments, no shell
            ["git", "-C", str(folder), *words],  # noqa: S607 - the user's own git
            input=data, capture_output=True, check=False, timeout=_GIT_TIMEOUT_S,
        )  # fmt: skip
    except OSError as error:
        raise FolderError(
            f"cannot run git: {error.strerror}; install it to compare with a revision"
        ) from None
    except subprocess.TimeoutExpired:
        raise FolderError(f"git did not answer within {_GIT_TIMEOUT_S:g} s in {folder}") from None
    if done.returncode == 0:
        return done.stdout
    said = done.stderr.decode(errors="replace").strip()
    if said:
        raise FolderError(f"git in {folder}: {said.splitlines()[-1]}")
    return None
