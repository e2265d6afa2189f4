"""``registrar user …`` and ``registrar acl …``: the files of users and of rules."""

from __future__ import annotations

import fcntl
import getpass
import os
import sys
from collections.abc import Callable
from pathlib import Path

import click

from registry.base.config.loading import Loaded, Settings
from registry.base.processes.file_lock import replace
from registry.cli.output import FAILED, OK, REFUSED, Refusal
from registry.cli.setting_flags import with_settings
from registry.cli.verb import Verb, VerbGroup
from registry.domain.model import Subject
from registry.domain.principal import KINDS, Principal, kind_and_name
from registry.security.authorization.rules import ANYONE, Rules, explain
from registry.security.authorization.rules_file import parse
from registry.security.gate import Permission
from registry.security.watched_file import FileError, WatchedFile

_FILE_BYTES_MAX = 4 * 1024 * 1024
_LENGTH_MIN = 10
_CHARACTERS_MIN = 5  # that differ


class EditRefused(Exception):
    """A command that changes nothing; the text is for the user."""


def add_user(path: Path, name: str, groups: list[str]) -> None:
    """Add a user; create the file if there is none."""
    from registry.security.authentication.passwords import hash_password  # noqa: PLC0415 (only to edit)
    from registry.security.authentication.users import check_name  # noqa: PLC0415

    try:
        check_name(name)
        for group in groups:
            check_name(group, "group")
    except ValueError as error:
        raise EditRefused(str(error)) from None
    if _find(_lines(path), name) is not None:
        raise EditRefused(f"the user {name!r} exists; change the password with registrar user passwd")
    line = ":".join([name, hash_password(_password(name)), *([",".join(groups)] if groups else [])])

    def edit(lines: list[str]) -> list[str]:
        if _find(lines, name) is not None:
            raise EditRefused(f"the user {name!r} exists")
        return [*lines, line]

    _rewrite(path, edit)


def change_password(path: Path, name: str) -> None:
    """Change a user's password."""
    from registry.security.authentication.passwords import hash_password  # noqa: PLC0415 (only to edit)

    _existing(_lines(path), name)
    encoded = hash_password(_password(name))

    def edit(lines: list[str]) -> list[str]:
        at = _existing(lines, name)
        parts = lines[at].strip().split(":")
        return [*lines[:at], ":".join([parts[0], encoded, *parts[2:]]), *lines[at + 1 :]]

    _rewrite(path, edit)


def remove_user(path: Path, name: str) -> None:
    """Remove a user."""

    def edit(lines: list[str]) -> list[str]:
        at = _existing(lines, name)
        return [*lines[:at], *lines[at + 1 :]]

    _rewrite(path, edit)


def print_users(path: Path) -> None:
    """Print the users and their groups."""
    from registry.security.authentication.users import parse_users  # noqa: PLC0415 (only to list)
    from registry.security.watched_file import FileError  # noqa: PLC0415

    try:
        users = parse_users(_content(path))
    except FileError as error:
        raise EditRefused(_error_at(path, error.line, error.reason)) from None
    for user in sorted(users, key=lambda user: user.principal.name):
        print("\t".join([user.principal.name, ",".join(sorted(user.principal.groups))]).rstrip("\t"))


def _rewrite(path: Path, edit: Callable[[list[str]], list[str]]) -> None:
    """Replace the file by one with other lines, while no other such command does."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # the folder's lock leaves no file behind
        content = "".join(f"{line}\n" for line in edit(_lines(path))).encode()
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
        raise EditRefused(f"{path} is a file of Confluent or Karapace, which is only read; edit it as before")
    try:
        parse_users(content)
    except FileError as error:
        raise EditRefused(_error_at(path, error.line, error.reason)) from None
    return content.decode("utf-8-sig").removesuffix("\n").split("\n") if content else []


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return b""
    if len(content) > _FILE_BYTES_MAX:
        raise EditRefused(f"{path} is larger than {_FILE_BYTES_MAX} bytes")
    return content


def _error_at(path: Path, line: int, reason: str) -> str:
    return f"{path}, line {line}: {reason}" if line else f"{path}: {reason}"


def _find(lines: list[str], name: str) -> int | None:
    for at, line in enumerate(lines):
        if not line.lstrip().startswith("#") and line.strip().partition(":")[0] == name:
            return at
    return None


def _existing(lines: list[str], name: str) -> int:
    at = _find(lines, name)
    if at is None:
        raise EditRefused(f"there is no user {name!r}")
    return at


def _password(name: str) -> str:
    """Return a new password: typed twice without being shown, or the first line of standard input."""
    from registry.security.authentication.passwords import PASSWORD_BYTES_MAX  # noqa: PLC0415 (as above)

    if sys.stdin.isatty():
        password = getpass.getpass("Password: ")
        if getpass.getpass("Again: ") != password:
            raise EditRefused("the passwords differ")
    else:
        raw = sys.stdin.buffer.readline(PASSWORD_BYTES_MAX + 2)
        try:
            password = raw.removesuffix(b"\n").removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            raise EditRefused("the password is not UTF-8") from None
    if len(password) < _LENGTH_MIN or len(set(password)) < _CHARACTERS_MIN:
        needs = f"it needs {_LENGTH_MIN} characters, {_CHARACTERS_MIN} of them different"
        raise EditRefused(f"the password is too weak: {needs}")
    if len(password.encode()) > PASSWORD_BYTES_MAX or not password.isprintable():
        raise EditRefused(f"a password has at most {PASSWORD_BYTES_MAX} bytes and no control characters")
    if name.lower() in password.lower():
        raise EditRefused("the password is too weak: it contains the user's name")
    return password


_ENTERED = "Asks for the password twice, or reads it from standard input if that is not a terminal."
_STATUS = "Exit status: 0 done, 1 refused."

_Edit = Callable[[Path], None]
_with_users = with_settings("access", shown=("users",))
_name = click.argument("name", metavar="NAME", help="The user's name.")


@click.group(cls=VerbGroup)
def user() -> None:
    """Manage the users file that the setting users names. Running nodes pick up changes within seconds."""


@user.command("add", cls=Verb, help=f"Add a user; creates the file. {_ENTERED}", epilog=_STATUS)
@_name
@click.option("--groups", default="", metavar="GROUP,GROUP", help="Groups of the user.")
@_with_users
def _add(loaded: Loaded, *, name: str, groups: str) -> int:
    listed = [each.strip() for each in groups.split(",") if each.strip()]
    return _edit(loaded, lambda path: add_user(path, name, listed))


@user.command("passwd", cls=Verb, help=f"Change a user's password. {_ENTERED}", epilog=_STATUS)
@_name
@_with_users
def _passwd(loaded: Loaded, *, name: str) -> int:
    return _edit(loaded, lambda path: change_password(path, name))


@user.command("remove", cls=Verb, help="Remove a user.", epilog=_STATUS)
@_name
@_with_users
def _remove(loaded: Loaded, *, name: str) -> int:
    return _edit(loaded, lambda path: remove_user(path, name))


@user.command("list", cls=Verb, help="List the users and their groups.", epilog=_STATUS)
@_with_users
def _list(loaded: Loaded) -> int:
    return _edit(loaded, print_users)


def _edit(loaded: Loaded, edit: _Edit) -> int:
    if not loaded.settings.users:
        raise Refusal("name the file of users: --users FILE")
    try:
        # A link stays one, so that the file it names is replaced.
        edit(Path(loaded.settings.users).resolve())
    except EditRefused as error:
        raise Refusal(str(error)) from None
    except OSError as error:
        raise Refusal(f"{error.filename}: {error.strerror}") from None
    return OK


_SHOWN = 10  # names that a warning lists


@click.group(cls=VerbGroup)
def acl() -> None:
    """Explain and check the access rules file."""


_rules_option = click.option(
    "--rules", "file", default="", metavar="FILE", help="The rules [default: those of the settings]."
)


@acl.command("explain", cls=Verb, epilog="Exit status: 0 allowed, 1 denied, 2 the rules cannot be used.")
@click.argument("user", metavar="USER", help="Name of the principal, or its kind too: user:, token:, cert:.")
@click.argument(
    "operation",
    type=click.Choice([each.value for each in Permission]),
    metavar="OPERATION",
    help=f"One of {', '.join(each.value for each in Permission)}.",
)
@click.argument("subject", metavar="SUBJECT", help="A subject, or a context as :.ctx:")
@click.option("--groups", default="", metavar="GROUP,…", help="Groups of the principal, separated by commas.")
@_rules_option
@with_settings(refused=FAILED)
def _explain(loaded: Loaded, *, user: str, operation: str, subject: str, groups: str, file: str) -> int:
    """Print whether the rules permit an operation, and which rule decides."""
    rules = _rules(loaded, file)
    if rules is None:
        return FAILED
    kind, name = kind_and_name(user)
    principal = Principal(name, frozenset(filter(None, groups.split(","))))
    asked = Permission(operation), Subject.parse(subject)
    found = {each: explain(rules, principal, *asked, each) for each in ([kind] if kind else KINDS)}
    if len(set(found.values())) == 1:
        print(next(iter(found.values())).reason)
    else:
        print("\n".join(f"{each}:{name}: {explained.reason}" for each, explained in found.items()))
    return OK if all(each.allowed for each in found.values()) else REFUSED


@acl.command("check", cls=Verb, epilog="Exit status: 0 valid, 2 invalid.")
@_rules_option
@with_settings(refused=FAILED)
def _check(loaded: Loaded, *, file: str) -> int:
    """Validate a rules file."""
    rules = _rules(loaded, file)
    if rules is None:
        return FAILED
    print(f"valid; rules: {len(rules.rules)}")
    unclear = _of_several_kinds(loaded.settings, rules)
    if unclear:
        named = ", ".join(map(repr, unclear[:_SHOWN])) + (", …" if len(unclear) > _SHOWN else "")
        print(
            f"registrar: warning: each of these names can belong to several principals: {named}",
            file=sys.stderr,
        )
        print(f"name the kind, as in 'user:{unclear[0]}'; kinds: {', '.join(KINDS)}", file=sys.stderr)
    return OK


def _of_several_kinds(settings: Settings, rules: Rules) -> list[str]:
    """Return the names without a kind if principals can authenticate in several ways."""
    ways = (bool(settings.users), bool(settings.jwt_jwks), settings.tls_client_auth != "none")
    if sum(ways) < 2:
        return []
    return sorted(each for each in rules.names() if each != ANYONE and not kind_and_name(each)[0])


def _rules(loaded: Loaded, file: str) -> Rules | None:
    path = file or loaded.settings.rules
    if not path:
        print("registrar: name the rules file with --rules FILE", file=sys.stderr)
        return None
    try:
        return WatchedFile(Path(path), parse).value
    except FileError as error:
        print(f"registrar: {error}", file=sys.stderr)
        return None
