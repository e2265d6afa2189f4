"""Users and their passwords, from a file of one of three formats.

A file of this registry has a line ``NAME:HASH[:GROUP,GROUP…]`` for each user, with an argon2id hash. Files of
Confluent (Jetty's property file) and of Karapace (JSON) are read as they are. The format is detected by the
content.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from registry.domain.principal import Principal
from registry.security.watched_file import FileError

from . import foreign_files
from .passwords import Argon2, Password

NAME_BYTES_MAX = 255
LINE_CHARACTERS_MAX = 4096
_HASH = "$argon2"
# Separators of a line's parts, and characters that do not print.
_NOT_IN_NAMES = re.compile(r"[:,\x00-\x1f\x7f]")


class User(NamedTuple):
    """A user who can authenticate with a password."""

    principal: Principal
    password: Password


class Users:
    """The users of one file. Names are as clients send them: bytes, because clients choose the encoding."""

    def __init__(self, users: Mapping[bytes, User]) -> None:
        self._users = users
        self._passwords = [user.password for user in users.values()]

    def __len__(self) -> int:
        """Return the number of users."""
        return len(self._users)

    def __iter__(self) -> Iterator[User]:
        """Return the users."""
        return iter(self._users.values())

    def get(self, name: bytes) -> User | None:
        """Return the user of this name."""
        return self._users.get(name)

    def decoy(self, name: bytes) -> Password:
        """Return the password of some user, always the same for an unknown name.

        Comparing it takes as long as for an existing name, so timing does not reveal which names exist.
        """
        return self._passwords[hash(name) % len(self._passwords)]


def parse_users(content: bytes) -> Users:
    """Return the users in a file's content; raise :class:`FileError` if any part is invalid."""
    users = _parse(content.removeprefix(codecs.BOM_UTF8))
    for name, groups in (user.principal for user in users):
        for each in (name, *sorted(groups)):
            if not each.isprintable():
                raise FileError(f"the name {each!a} contains non-printing characters")
    return users


def _parse(content: bytes) -> Users:
    if content.lstrip().startswith(b"{"):
        found = foreign_files.parse_karapace(content)
        return Users({name.encode(): User(Principal(name), password) for name, password in found})
    if _is_property_file(content):
        return Users({entry.name: _user(entry) for entry in foreign_files.parse_properties(content)})
    return _parse_own(content)


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are neither blank nor comments, stripped, with their numbers."""
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            yield number, stripped


def check_name(name: str, what: str = "name") -> None:
    """Raise :class:`ValueError` if ``name`` cannot be the name of a user or group in a file of users."""
    if not name or name != name.strip() or len(name.encode()) > NAME_BYTES_MAX:
        raise ValueError(f"a {what} has 1 to {NAME_BYTES_MAX} bytes, without spaces around it")
    if _NOT_IN_NAMES.search(name) or name.startswith(("#", "!", "{", "$")):
        raise ValueError(
            f"a {what} has no colon, comma or control character, and begins with none of # ! {{ $"
        )


def is_own_format(content: bytes) -> bool:
    """Return true if the content has this registry's own format, or names nobody yet."""
    content = content.removeprefix(codecs.BOM_UTF8)
    return not (content.lstrip().startswith(b"{") or _is_property_file(content))


def _is_property_file(content: bytes) -> bool:
    """Return true if the first line that counts has no hash of this registry's own files."""
    for _, line in lines_of(content.decode("latin-1")):
        return not line.partition(":")[2].lstrip().startswith(_HASH)
    return False


def _parse_own(content: bytes) -> Users:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise FileError("is not UTF-8", content.count(b"\n", 0, error.start) + 1) from None
    users: dict[bytes, User] = {}
    for number, line in lines_of(text):
        try:
            name, user = _parse_line(line)
        except ValueError as error:
            raise FileError(str(error), number) from None
        if name.encode() in users:
            raise FileError(f"the user {name!r} is listed twice", number)
        users[name.encode()] = user
    return Users(users)


def _parse_line(line: str) -> tuple[str, User]:
    if len(line) > LINE_CHARACTERS_MAX:
        raise ValueError(f"the line has more than {LINE_CHARACTERS_MAX} characters")
    name, separator, rest = line.partition(":")
    encoded, _, listed = rest.partition(":")
    if not separator:
        raise ValueError("expected NAME:HASH or NAME:HASH:GROUP,GROUP")
    check_name(name)
    try:
        password = Argon2(encoded)
    except ValueError as error:
        raise ValueError(f"the hash of {name!r} {error}") from None
    groups = [group.strip() for group in listed.split(",")] if listed else []
    for group in groups:
        check_name(group, "group")
    return name, User(Principal(name, frozenset(groups)), password)


def _user(entry: foreign_files.UserEntry) -> User:
    groups = frozenset(_readable(role) for role in entry.roles)
    return User(Principal(_readable(entry.name), groups), entry.password)


def _readable(name: bytes) -> str:
    """Return a name as text: UTF-8, or what Java takes it for."""
    try:
        return name.decode()
    except UnicodeDecodeError:
        return name.decode("latin-1")
