"""Files of users in the formats of other registries.

JSON: ``{"users": [{"username", "algorithm", "salt", "password_hash"}, …], "permissions": […]}``.

A line is ``NAME: PASSWORD[,ROLE…]``, in the syntax of Java's properties. A password is clear text,
``OBF:`` (obfuscated clear text) or ``MD5:``. ``CRYPT:`` is refused: it is DES over eight characters.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from registry.security.watched_file import FileError

from .passwords import PASSWORD_BYTES_MAX, Md5, Password, Plain, Salted

_TEXT_CHARACTERS_MAX = 1024


def parse_karapace(content: bytes) -> Iterator[tuple[str, Salted]]:
    """Yield names and passwords; the last of several with one name counts. Raises :class:`FileError`."""
    users = document(content).get("users")
    if not isinstance(users, list):
        raise FileError('has no list "users"')
    for number, entry in enumerate(users, 1):
        try:
            yield _user(entry)
        except ValueError as error:
            raise FileError(f"user {number} of the list {error}") from None


def document(content: bytes) -> dict[str, Any]:
    """Return the JSON object in ``content``; raise :class:`FileError` if it is none."""
    try:
        found = json.loads(content)
    except json.JSONDecodeError as error:
        raise FileError(f"is not JSON: {error.msg}", error.lineno) from None
    except (ValueError, RecursionError):
        raise FileError("is not JSON: it is not UTF-8, nested too deeply, or has a number too long") from None
    if not isinstance(found, dict):
        raise FileError("is not a JSON object")
    return found


def _user(entry: Any) -> tuple[str, Salted]:
    name, algorithm, salt, encoded = (
        _text(entry, field) for field in ("username", "algorithm", "salt", "password_hash")
    )
    if not name:
        raise ValueError("has no name")
    try:
        digest = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("has a password_hash that is not base64") from None
    return name, Salted(algorithm, salt.encode(), digest)


def _text(entry: Any, field: str) -> str:
    found = entry.get(field) if isinstance(entry, dict) else None
    if not isinstance(found, str) or len(found) > _TEXT_CHARACTERS_MAX:
        raise ValueError(f'has no "{field}" of at most {_TEXT_CHARACTERS_MAX} characters')
    try:
        found.encode()
    except UnicodeEncodeError:
        raise ValueError(f'has a lone surrogate in "{field}"') from None
    return found


_LINE_CHARACTERS_MAX = 4096
_SPACE = " \t\f"
_KEY_END = _SPACE + "=:"
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_OBFUSCATED = re.compile(r"(?:U[0-9a-z]{4}|[0-9a-z]{4})*")
_OBFUSCATED_BYTE = re.compile(r"U([0-9a-z]{4})|([0-9a-z]{4})")
_LINE_END = re.compile(r"\r\n|\r|\n")


class UserEntry(NamedTuple):
    """One user."""

    name: bytes
    password: Password
    roles: tuple[bytes, ...]


def parse_properties(content: bytes) -> Iterator[UserEntry]:
    """Yield the users; the last of several with one name counts. Raises :class:`FileError`."""
    # As by Java, which reads the file as Latin-1, and Jetty, which takes a client's bytes for the same.
    for number, line in _logical_lines(content.decode("latin-1")):
        try:
            key, value = _pair(line)
            entry = _entry(key.strip(), value.strip())
        except ValueError as error:
            raise FileError(str(error), number) from None
        if entry is not None:
            yield entry


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with their continuations, without comments, and the number of their first line."""
    begun, first = "", 0
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_SPACE)
        if not begun:
            if not line or line[0] in "#!":
                continue
            first = number
        if len(begun) + len(line) > _LINE_CHARACTERS_MAX:
            raise FileError(f"the line has more than {_LINE_CHARACTERS_MAX} characters", first)
        slashes = len(line) - len(line.rstrip("\\"))
        if slashes % 2:
            begun += line[:-1]
            continue
        yield first, begun + line
        begun = ""
    if begun:
        yield first, begun


def _pair(line: str) -> tuple[str, str]:
    """Split a logical line into its key and value, without escapes."""
    end = 0
    while end < len(line) and line[end] not in _KEY_END:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_SPACE)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_SPACE)
    return _unescape(line[:end]), _unescape(rest)


def _unescape(text: str) -> str:
    out, characters = [], iter(text)
    for character in characters:
        if character != "\\":
            out.append(character)
            continue
        escaped = next(characters, "")
        if escaped == "u":
            digits = "".join(next(characters, "") for _ in range(4))
            if not re.fullmatch("[0-9a-fA-F]{4}", digits):
                raise ValueError("\\u is not followed by four hexadecimal digits")
            out.append(chr(int(digits, 16)))
        else:
            out.append(_CONTROL.get(escaped, escaped))
    return "".join(out)


def _entry(name: str, value: str) -> UserEntry | None:
    password, _, listed = value.partition(",")
    password = password.strip()
    if not name or not password:
        return None  # As Jetty does.
    roles = tuple(_bytes(role.strip()) for role in listed.split(",") if role.strip())
    try:
        return UserEntry(_bytes(name), _password(password), roles)
    except ValueError as error:
        raise ValueError(f"the password of {name[:255]!r} {error}") from None


def _password(text: str) -> Password:
    if text.startswith("OBF:"):
        return Plain(_deobfuscate(text[4:]))
    if text.startswith("MD5:"):
        if not re.fullmatch("[0-9a-fA-F]{32}", text[4:]):
            raise ValueError("is not an MD5 hash of 32 hexadecimal digits")
        return Md5(bytes.fromhex(text[4:]))
    if text.startswith("CRYPT:"):
        raise ValueError("is in the format CRYPT:, which is not supported; use another format")
    if text.startswith("$argon2"):
        raise ValueError("is an argon2 hash; such a file must begin with a line NAME:HASH")
    password = _bytes(text)
    if len(password) > PASSWORD_BYTES_MAX:
        raise ValueError(f"has more than {PASSWORD_BYTES_MAX} bytes")
    return Plain(password)


def _deobfuscate(text: str) -> bytes:
    """Undo Jetty's obfuscation: each byte is four digits to the base 36, five with a ``U``."""
    if not text or not _OBFUSCATED.fullmatch(text):
        raise ValueError("is not obfuscated as Jetty does it")
    out = []
    for wide, pair in _OBFUSCATED_BYTE.findall(text):
        number = int(wide or pair, 36)
        byte = number >> 8 if wide else (number // 256 + number % 256 - 254) // 2
        if not 0 <= byte <= 255:
            raise ValueError("is not obfuscated as Jetty does it")
        out.append(byte)
    return bytes(out)


def _bytes(text: str) -> bytes:
    """Return the bytes that a client sends for ``text``; those beyond Latin-1 come from escapes."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode(errors="replace")
