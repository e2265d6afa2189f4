"""Commands that edit the file of users: ``registrar user …``."""

from __future__ import annotations

import fcntl
import getpass
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from registry.config.loading import Loaded
from registry.processes.file_lock import replace

from .snapshot import Add

_FILE_BYTES_MAX = 4 * 1024 * 1024
_LENGTH_MIN = 10
_CHARACTERS_MIN = 5  # that differ


class _Refused(Exception):
    """A command that changes nothing; the text is for the user."""


def add_commands(commands: Any, add: Add) -> None:
    """Add the commands to ``commands`` by ``add``; see :func:`.snapshot.add_commands`."""
    does = "Edit the file of users that the setting users names. Nodes and readers follow it within seconds."
    parser = commands.add_parser("user", help=does, description=does)
    within = parser.add_subparsers(metavar="COMMAND", required=True)
    entered = "The password is asked for twice, or read from standard input if that is no terminal."

    def command(name: str, run: Callable[[Path, dict[str, Any]], None], does: str) -> Any:
        return add(within, name, partial(_run, run), does, ("access",))

    added = command("add", _add, f"Add a user; creates the file. {entered}")
    _name(added)
    added.add_argument("--groups", default="", metavar="GROUP,GROUP", help="groups of the user")
    _name(command("passwd", _passwd, f"Change a user's password. {entered}"))
    _name(command("remove", _remove, "Remove a user."))
    command("list", _list, "List the users and their groups.")


def _name(parser: Any) -> None:
    parser.add_argument("name", metavar="NAME", help="the user's name")


def _run(command: Callable[[Path, dict[str, Any]], None], loaded: Loaded, options: dict[str, Any]) -> int:
    if not loaded.settings.users:
        print("registrar: name the file of users: --users FILE", file=sys.stderr)
        return 1
    try:
        # A link stays one, so that the file it names is replaced.
        command(Path(loaded.settings.users).resolve(), options)
    except _Refused as error:
        print(f"registrar: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"registrar: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def _add(path: Path, options: dict[str, Any]) -> None:
    from registry.security.authentication.passwords import hash_password  # noqa: PLC0415 (only to edit)
    from registry.security.authentication.users import check_name  # noqa: PLC0415

    name, groups = options["name"], [each.strip() for each in options["groups"].split(",") if each.strip()]
    try:
        check_name(name)
        for group in groups:
            check_name(group, "group")
    except ValueError as error:
        raise _Refused(str(error)) from None
    if _find(_lines(path), name) is not None:
        raise _Refused(f"the user {name!r} exists; change the password with registrar user passwd")
    line = ":".join([name, hash_password(_password(name)), *([",".join(groups)] if groups else [])])

    def edited(lines: list[str]) -> list[str]:
        if _find(lines, name) is not None:
            raise _Refused(f"the user {name!r} exists")
        return [*lines, line]

    _edit(path, edited)


def _passwd(path: Path, options: dict[str, Any]) -> None:
    from registry.security.authentication.passwords import hash_password  # noqa: PLC0415 (only to edit)

    name = options["name"]
    _existing(_lines(path), name)
    encoded = hash_password(_password(name))

    def edited(lines: list[str]) -> list[str]:
        at = _existing(lines, name)
        parts = lines[at].strip().split(":")
        return [*lines[:at], ":".join([parts[0], encoded, *parts[2:]]), *lines[at + 1 :]]

    _edit(path, edited)


def _remove(path: Path, options: dict[str, Any]) -> None:
    def edited(lines: list[str]) -> list[str]:
        at = _existing(lines, options["name"])
        return [*lines[:at], *lines[at + 1 :]]

    _edit(path, edited)


def _list(path: Path, options: dict[str, Any]) -> None:
    from registry.security.authentication.users import parse_users  # noqa: PLC0415 (only to list)
    from registry.security.watched_file import FileError  # noqa: PLC0415

    try:
        users = parse_users(_content(path))
    except FileError as error:
        raise _Refused(_located(path, error.line, error.reason)) from None
    for user in sorted(users, key=lambda user: user.principal.name):
        print("\t".join([user.principal.name, ",".join(sorted(user.principal.groups))]).rstrip("\t"))


def _edit(path: Path, edited: Callable[[list[str]], list[str]]) -> None:
    """Replace the file by one with other lines, while no other such command does."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # the folder's lock leaves no file behind
        content = "".join(f"{line}\n" for line in edited(_lines(path))).encode()
        owner = path.stat() if path.exists() else None
        replace(path, content, path.with_name(f".{path.name}.{os.getpid()}"))
        if owner is not None and os.geteuid() == 0:  # root edits what a service reads
            os.chown(path, owner.st_uid, owner.st_gid)
    finally:
        os.close(folder)


def _lines(path: Path) -> list[str]:
    """Return the lines of a file of this registry; refuse one that is not valid, or of another format."""
    from registry.security.authentication.users import is_own_format, parse_users  # noqa: PLC0415
    from registry.security.watched_file import FileError  # noqa: PLC0415

    content = _content(path)
    if not is_own_format(content):
        raise _Refused(f"{path} is a file of Confluent or Karapace, which is only read; edit it as before")
    try:
        parse_users(content)
    except FileError as error:
        raise _Refused(_located(path, error.line, error.reason)) from None
    return content.decode("utf-8-sig").removesuffix("\n").split("\n") if content else []


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return b""
    if len(content) > _FILE_BYTES_MAX:
        raise _Refused(f"{path} is larger than {_FILE_BYTES_MAX} bytes")
    return content


def _located(path: Path, line: int, reason: str) -> str:
    return f"{path}, line {line}: {reason}" if line else f"{path}: {reason}"


def _find(lines: list[str], name: str) -> int | None:
    for at, line in enumerate(lines):
        if not line.lstrip().startswith("#") and line.strip().partition(":")[0] == name:
            return at
    return None


def _existing(lines: list[str], name: str) -> int:
    at = _find(lines, name)
    if at is None:
        raise _Refused(f"there is no user {name!r}")
    return at


def _password(name: str) -> str:
    """Return a new password: typed twice without being shown, or the first line of standard input."""
    from registry.security.authentication.passwords import PASSWORD_BYTES_MAX  # noqa: PLC0415 (as above)

    if sys.stdin.isatty():
        password = getpass.getpass("Password: ")
        if getpass.getpass("Again: ") != password:
            raise _Refused("the passwords differ")
    else:
        raw = sys.stdin.buffer.readline(PASSWORD_BYTES_MAX + 2)
        try:
            password = raw.removesuffix(b"\n").removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            raise _Refused("the password is not UTF-8") from None
    if len(password) < _LENGTH_MIN or len(set(password)) < _CHARACTERS_MIN:
        needs = f"it needs {_LENGTH_MIN} characters, {_CHARACTERS_MIN} of them different"
        raise _Refused(f"the password is too weak: {needs}")
    if len(password.encode()) > PASSWORD_BYTES_MAX or not password.isprintable():
        raise _Refused(f"a password has at most {PASSWORD_BYTES_MAX} bytes and no control characters")
    if name.lower() in password.lower():
        raise _Refused("the password is too weak: it contains the user's name")
    return password
