"""Stored passwords, in the formats of the files of users.

New passwords are hashed by argon2id. The other formats are those of Confluent's and Karapace's files.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Protocol

from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError
from argon2.low_level import Type, verify_secret

PASSWORD_BYTES_MAX = 1024

# The maximum cost of one verification: memory in KiB, passes over it, and threads.
_MEMORY_MAX = 128 * 1024
_PASSES_MAX = 10
_THREADS_MAX = 16
_ARGON2 = re.compile(
    r"\$argon2id\$v=19\$m=([0-9]{1,7}),t=([0-9]{1,3}),p=([0-9]{1,3})"
    r"\$([A-Za-z0-9+/]{11,86})\$([A-Za-z0-9+/]{22,86})"
)
# Karapace's parameters.
_PBKDF2_ROUNDS = 5000
_SCRYPT_N, _SCRYPT_R, _SCRYPT_P = 16384, 8, 1
_PBKDF2 = frozenset({"sha1", "sha256", "sha512"})
_SCRYPT = "scrypt"


class Password(Protocol):
    """The password of one user, as stored."""

    def matches(self, given: bytes) -> bool:
        """Return true if ``given`` is the password. May take long; comparing takes constant time."""
        ...


def hash_password(password: str) -> str:
    """Return the argon2id hash of a new password, encoded with its salt and parameters."""
    return PasswordHasher().hash(password)


@dataclass(frozen=True, slots=True)
class Argon2:
    """An argon2id hash in its usual encoding, ``$argon2id$v=19$m=…,t=…,p=…$SALT$HASH``."""

    encoded: str

    def __post_init__(self) -> None:
        """Raise :class:`ValueError` if the hash is malformed or would cost too much to verify."""
        found = _ARGON2.fullmatch(self.encoded)
        if found is None or not all(_is_base64(part) for part in found.group(4, 5)):
            raise ValueError("is not an argon2id hash of version 19")
        memory, passes, threads = (int(number) for number in found.group(1, 2, 3))
        if not (passes and threads and memory >= 8 * threads):
            raise ValueError("is not an argon2id hash of version 19")
        if memory > _MEMORY_MAX or passes > _PASSES_MAX or threads > _THREADS_MAX:
            raise ValueError(
                f"would cost too much to verify: at most m={_MEMORY_MAX}, t={_PASSES_MAX}, p={_THREADS_MAX}"
            )

    def matches(self, given: bytes) -> bool:
        """Return true if ``given`` is the password."""
        try:
            return verify_secret(self.encoded.encode(), given, Type.ID)
        except VerifyMismatchError:
            return False


def _is_base64(text: str) -> bool:
    """Return true if ``text`` is the canonical base64 of its bytes, without padding."""
    try:
        decoded = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        return False
    return base64.b64encode(decoded).rstrip(b"=") == text.encode()


@dataclass(frozen=True, slots=True)
class Plain:
    """A password in clear text."""

    password: bytes

    def matches(self, given: bytes) -> bool:
        """Return true if ``given`` is the password."""
        return hmac.compare_digest(self.password, given)


@dataclass(frozen=True, slots=True)
class Md5:
    """An MD5 hash without a salt, which Jetty accepts."""

    digest: bytes

    def matches(self, given: bytes) -> bool:
        """Return true if ``given`` is the password."""
        return hmac.compare_digest(self.digest, hashlib.md5(given, usedforsecurity=False).digest())


@dataclass(frozen=True, slots=True)
class Salted:
    """A salted hash as Karapace has it: PBKDF2 with SHA-1, SHA-256 or SHA-512, or scrypt."""

    algorithm: str
    salt: bytes
    digest: bytes

    def __post_init__(self) -> None:
        """Raise :class:`ValueError` for an unknown algorithm or a hash of another length."""
        if self.algorithm not in _PBKDF2 and self.algorithm != _SCRYPT:
            known = ", ".join(sorted({*_PBKDF2, _SCRYPT}))
            raise ValueError(f"has an unknown algorithm {self.algorithm[:40]!r}; known are {known}")
        length = 64 if self.algorithm == _SCRYPT else hashlib.new(self.algorithm).digest_size
        if len(self.digest) != length:
            raise ValueError(f"has a hash of {len(self.digest)} bytes; {self.algorithm} has {length}")

    def matches(self, given: bytes) -> bool:
        """Return true if ``given`` is the password."""
        return hmac.compare_digest(self.digest, self._derive(given))

    def _derive(self, given: bytes) -> bytes:
        if self.algorithm == _SCRYPT:
            return hashlib.scrypt(given, salt=self.salt, n=_SCRYPT_N, r=_SCRYPT_R, p=_SCRYPT_P)
        return hashlib.pbkdf2_hmac(self.algorithm, given, self.salt, _PBKDF2_ROUNDS)
