"""The keyset of the metadata encoder, in the JSON format of Tink's encrypted keysets, and its storage.

As in Confluent 8.3.1, byte for byte: a key derived from the secret (HKDF with SHA-256, no salt, no info)
encrypts the keyset, a small protobuf message of AES-128-GCM keys. The primary key encrypts values, and each
key decrypts the values that begin with its id.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol, Self

import orjson

from registry.base.processes import file_lock
from registry.log.contract import LogError

_TYPE = "type.googleapis.com/google.crypto.tink.AesGcmKey"
_KEY_BYTES, _NONCE_BYTES, _ID_BYTES = 16, 12, 4
_VERSION = b"\x01"  # of the prefix of a value
_HEAD_BYTES = len(_VERSION) + _ID_BYTES
_ENABLED = _SYMMETRIC = _TINK = 1
_VARINT, _LENGTH = 0, 2  # protobuf's wire types
_VARINT_BYTES_MAX = 10


class BadKeyset(Exception):
    """The bytes are not a readable keyset; the text says why."""


class WrongSecret(Exception):
    """The keyset was encrypted with another secret, or is damaged."""


class Keyset(NamedTuple):
    """AES-128 keys by id."""

    # The id of the key that encrypts.
    primary: int
    keys: Mapping[int, bytes]

    @classmethod
    def new(cls) -> Self:
        """Return a keyset with one random key."""
        return cls(0, {}).with_new_primary()

    def with_new_primary(self) -> Self:
        """Return the keyset with an additional random key as its primary."""
        fresh = 0
        while not fresh or fresh in self.keys:
            fresh = int.from_bytes(os.urandom(_ID_BYTES), "big")
        return self._replace(primary=fresh, keys={**self.keys, fresh: os.urandom(_KEY_BYTES)})

    def with_keys_of(self, other: Keyset) -> Self:
        """Return the keyset with the keys of ``other`` added; the primary stays."""
        return self._replace(keys={**other.keys, **self.keys})

    def encrypt(self, plain: str) -> str:
        """Return the encrypted text of a property's value as it is stored; it differs at each call."""
        head = _VERSION + self.primary.to_bytes(_ID_BYTES, "big")
        return b64encode(head + _seal(self.keys[self.primary], plain.encode())).decode()

    def decrypt(self, text: str) -> str | None:
        """Return the value; ``None`` if its key is unknown or the text is damaged."""
        number = key_id(text)
        key = None if number is None else self.keys.get(number)
        if key is None:
            return None
        try:
            return _open(key, b64decode(text)[_HEAD_BYTES:]).decode()
        except ValueError:
            return None

    def dumps(self, secret: str) -> bytes:
        """Return the keyset encrypted with a secret, as the value of its record."""
        info = [
            {"typeUrl": _TYPE, "status": "ENABLED", "keyId": each, "outputPrefixType": "TINK"}
            for each in self.keys
        ]
        text = {
            "encryptedKeyset": b64encode(_seal(_derive(secret), self._pack())).decode(),
            "keysetInfo": {"primaryKeyId": self.primary, "keyInfo": info},
        }
        return orjson.dumps(text) + b"\n"

    @classmethod
    def loads(cls, data: bytes, secret: str) -> Self:
        """Return the keyset in ``data``. Raises :class:`WrongSecret` and :class:`BadKeyset`."""
        try:
            sealed = b64decode(orjson.loads(data)["encryptedKeyset"], validate=True)
        except (ValueError, TypeError, KeyError) as error:
            raise BadKeyset(f"it is not an encrypted keyset in JSON: {error}") from None
        try:
            packed = _open(_derive(secret), sealed)
        except ValueError:
            raise WrongSecret from None
        return cls._unpack(packed)

    def _pack(self) -> bytes:
        keys = b"".join(_message(2, _packed_key(each, key)) for each, key in self.keys.items())
        return _number(1, self.primary) + keys

    @classmethod
    def _unpack(cls, packed: bytes) -> Self:
        primary, keys = 0, {}
        for field, value in _fields(packed):
            if field == 1 and isinstance(value, int):
                primary = value
            elif field == 2 and isinstance(value, bytes):
                keys.update(_unpacked_key(value))
        if primary not in keys:
            raise BadKeyset("its primary key is missing, disabled or not an AES-128-GCM key")
        return cls(primary, keys)


def key_id(text: str) -> int | None:
    """Return the id of the key that encrypted a value; ``None`` if the text is not an encrypted value."""
    try:
        raw = b64decode(text, validate=True)
    except ValueError:
        return None
    return int.from_bytes(raw[1:_HEAD_BYTES], "big") if raw[:1] == _VERSION else None


def key_ids(data: bytes) -> set[int]:
    """Return the ids that an encrypted keyset lists in clear text. Raises :class:`BadKeyset`."""
    try:
        return {int(each["keyId"]) for each in orjson.loads(data)["keysetInfo"]["keyInfo"]}
    except (ValueError, TypeError, KeyError) as error:
        raise BadKeyset(f"it is not an encrypted keyset in JSON: {error}") from None


# The library of these three is imported when they are called: most registries have no secret.


def _derive(secret: str) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

    return HKDF(SHA256(), _KEY_BYTES, salt=None, info=b"").derive(secret.encode())


def _seal(key: bytes, plain: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plain, None)


def _open(key: bytes, sealed: bytes) -> bytes:
    """Return what was sealed. Raises ``ValueError`` if the key is another or the bytes are damaged."""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

    try:
        return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], None)
    except InvalidTag as error:
        raise ValueError("the key is another, or the bytes are damaged") from error


def _packed_key(number: int, key: bytes) -> bytes:
    data = _message(1, _TYPE.encode()) + _message(2, _message(3, key)) + _number(3, _SYMMETRIC)
    return _message(1, data) + _number(2, _ENABLED) + _number(3, number) + _number(4, _TINK)


def _unpacked_key(packed: bytes) -> dict[int, bytes]:
    """Return the key under its id; empty if the key is disabled or of another kind."""
    fields = dict(_fields(packed))
    data = dict(_fields(_bytes(fields.get(1))))
    key = dict(_fields(_bytes(data.get(2)))).get(3)
    number = fields.get(3)
    usable = (fields.get(2), fields.get(4), data.get(1)) == (_ENABLED, _TINK, _TYPE.encode())
    if usable and isinstance(key, bytes) and len(key) == _KEY_BYTES and isinstance(number, int):
        return {number: key}
    return {}


def _bytes(value: int | bytes | None) -> bytes:
    return value if isinstance(value, bytes) else b""


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _message(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | _LENGTH) + _varint(len(value)) + value


def _fields(packed: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a protobuf message that contains only varints and length-delimited fields."""
    at = 0
    while at < len(packed):
        tag, at = _read_varint(packed, at)
        value, at = _read_varint(packed, at)
        if tag & 7 == _VARINT:
            yield tag >> 3, value
        elif tag & 7 == _LENGTH and at + value <= len(packed):
            yield tag >> 3, packed[at : at + value]
            at += value
        else:
            raise BadKeyset("its protobuf message is cut or has fields of an unknown kind")


def _read_varint(packed: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(packed[at : at + _VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, at + index + 1
    raise BadKeyset("its protobuf message is cut")


FILE = "encoder-keyset.json"


class KeysetStore(Protocol):
    """Storage of the encrypted keyset. All calls raise :class:`registry.log.contract.LogError`."""

    @property
    def name(self) -> str:
        """Name of the storage for messages."""
        ...

    def make(self) -> None:
        """Create the storage if it is missing."""
        ...

    def read(self) -> bytes | None:
        """Return the stored keyset; ``None`` if there is none."""
        ...

    def write(self, data: bytes) -> list[bytes]:
        """Write the keyset, durable on return; return those that others wrote since the last read."""
        ...


class KeysetFile:
    """The file in the data folder: the only keyset with an embedded log, a copy with a topic."""

    def __init__(self, data: Path) -> None:
        self.path = data / FILE

    @property
    def name(self) -> str:
        """Name of the file for messages."""
        return f"the file {self.path}"

    def make(self) -> None:
        """Do nothing: the file is created with the first keyset."""

    def read(self) -> bytes | None:
        """Return the stored keyset; ``None`` without a file."""
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LogError(f"{self.name} cannot be read: {error.strerror or error}") from error

    def write(self, data: bytes) -> list[bytes]:
        """Write the keyset and return no others: the file has no other writers."""
        try:
            file_lock.replace(self.path, data, self.path.with_suffix(".new"))
        except OSError as error:
            raise LogError(f"{self.name} cannot be written: {error.strerror or error}") from error
        return []

    def mark(self) -> tuple[int, int] | None:
        """Return a value that changes with each write of the file; ``None`` without a file."""
        try:
            stat = self.path.stat()
        except OSError:
            return None
        return stat.st_ino, stat.st_mtime_ns


def carry(data: bytes, store: KeysetStore) -> None:
    """Copy an encrypted keyset, unchanged, to another storage.

    Raises :class:`registry.log.contract.LogError`, also if that holds another keyset that lacks its keys.
    """
    found = store.read()
    if found is None:
        store.write(data)
        return
    try:
        missing = key_ids(data) - key_ids(found)
    except BadKeyset as error:
        raise LogError(f"the keyset in {store.name} cannot be compared: {error}") from error
    if missing:
        raise LogError(
            f"{store.name} holds another keyset, without the keys of this state's encrypted metadata; name "
            "another location (metadata_encoder_topic, or another data folder)"
        )
