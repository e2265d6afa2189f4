"""Sensitive metadata: encrypted in records and rows, in clear text where commands are decided and answered.

The record of a version with sensitive properties holds their encrypted values, the property ``__enc__`` and
the ``md5`` of the clear form (Confluent's ``metadata.encoder.secret``). Rows hold the same, since they are
the fold of records. Code that has the keys reads them through a :class:`PlainView`.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Hashable, Iterable
from typing import Any, Protocol

import msgspec
import orjson

from registry.domain import model
from registry.domain.errors import INVALID_SCHEMA, NOT_PERMITTED
from registry.domain.log_format import values
from registry.domain.log_format.jackson import dumps
from registry.domain.log_format.records import Entry
from registry.domain.rows import version_row
from registry.domain.rows.layout import ENCODED, VERSION
from registry.domain.rows.version_row import ENCODED_MARK, ENCODED_PROPERTY, VersionRow
from registry.domain.rows.view import Block, History, View

from . import entities

_SCHEMA_KEY = b'{"keytype":"SCHEMA"'
SENSITIVE = b'"sensitive":['
_PROPERTY = b'"__enc__":'
_RESERVED = f"Invalid metadata: the property {ENCODED_PROPERTY} is reserved for encrypted metadata"
NOT_CONFIGURED = (
    "The log has encrypted metadata, and this registry has no secret to read or write it: set "
    "metadata_encoder_secret"
)


class Cipher(Protocol):
    """A cipher for the values of properties, with Base64 texts."""

    def encrypt(self, plain: str) -> str:
        """Return the encrypted text, a different one each time. Raises :class:`.errors.RegistryError`."""
        ...

    def decrypt(self, text: str) -> str | None:
        """Return the clear text; ``None`` if the key is unknown or the text is damaged."""
        ...


class PlainView:
    """A view whose version rows show sensitive properties in clear text if their keys are known.

    Rows that cannot be decrypted stay as they are, including the property ``__enc__``.
    """

    __slots__ = ("_cipher", "_view")

    def __init__(self, view: View, cipher: Cipher) -> None:
        self._view = view
        self._cipher = cipher

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``."""
        value = self._view.get(key)
        return value if value is None or ENCODED_MARK not in value else self._plain(key, value)[1]

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the first row whose key is ``key`` or greater."""
        row = self._view.seek(key)
        return row if row is None or ENCODED_MARK not in row[1] else self._plain(*row)

    def seek_back(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the last row whose key is less than ``key``."""
        row = self._view.seek_back(key)
        return row if row is None or ENCODED_MARK not in row[1] else self._plain(*row)

    def revision(self) -> Hashable | None:
        """Return the revision of the view below."""
        return self._view.revision()

    def block(self, key: bytes) -> Block | None:
        """Return the block of the view below."""
        return self._view.block(key)

    def history(self) -> History | None:
        """Return the history of the view below."""
        return self._view.history()

    def _plain(self, key: bytes, value: bytes) -> tuple[bytes, bytes]:
        return key, plain_row(value, self._cipher) if key.startswith(VERSION) else value


def plain_view(view: View, cipher: Cipher | None) -> View:
    """Return a view that decrypts sensitive properties; the same view if there is no cipher."""
    return view if cipher is None else PlainView(view, cipher)


def plain_row(value: bytes, cipher: Cipher) -> bytes:
    """Return a version row with sensitive properties in clear text; unchanged if it cannot be decrypted."""
    row = VersionRow.unpack(value)
    if not version_row.is_encoded(row.metadata, md5_stored=row.md5_stored):
        return value
    meta = entities.metadata(row)
    assert meta is not None
    properties = {name: text for name, text in (meta.properties or {}).items() if name != ENCODED_PROPERTY}
    for name in _sensitive_among(properties, meta.sensitive):
        plain = cipher.decrypt(properties[name])
        if plain is None:
            return value
        properties[name] = plain
    shown = msgspec.structs.replace(meta, properties=properties or None)
    return row._replace(metadata=b',"metadata":' + dumps(msgspec.to_builtins(shown))).pack()


def has_encoded(view: View) -> bool:
    """Return true if any version has encrypted metadata."""
    row = view.seek(ENCODED)
    return row is not None and row[0].startswith(ENCODED)


def encrypt_entries(entries: Iterable[Entry], view: View, cipher: Cipher | None) -> list[Entry]:
    """Return the records for the log, with sensitive properties encrypted.

    ``view``: the rows of the log. Without a cipher, sensitive properties are refused (42205) if other
    versions have encrypted ones. Also raises 42201 for a reserved property, and the errors of the cipher.
    """
    return [
        each._replace(value=_encrypt_record(each.value, view, cipher))
        if each.value is not None
        and each.key.startswith(_SCHEMA_KEY)
        and (SENSITIVE in each.value or _PROPERTY in each.value)
        else each
        for each in entries
    ]


def _encrypt_record(value: bytes, view: View, cipher: Cipher | None) -> bytes:
    fields: dict[str, Any] = orjson.loads(value)
    meta: dict[str, Any] = fields.get("metadata") or {}
    properties, sensitive = meta.get("properties") or {}, meta.get("sensitive") or ()
    if ENCODED_PROPERTY in properties and "md5" in fields:
        return value  # repeats a row that could not be decrypted
    if cipher is None:
        _check_clear(fields, view)
        return value
    if ENCODED_PROPERTY in properties:
        raise INVALID_SCHEMA(_RESERVED)
    if not (properties and sensitive):
        return value
    md5 = fields.get("md5") or b64encode(values.read_schema(value).md5).decode()
    hidden = {name: cipher.encrypt(properties[name]) for name in _sensitive_among(properties, sensitive)}
    encoded = model.metadata(meta | {"properties": properties | hidden | {ENCODED_PROPERTY: "true"}})
    place = {name: fields[name] for name in ("subject", "version", "id") if name in fields}
    return dumps(place | {"md5": md5} | fields | {"metadata": msgspec.to_builtins(encoded)})


def _check_clear(fields: dict[str, Any], view: View) -> None:
    """Refuse new sensitive properties in clear text if others are encrypted; deletions may repeat them."""
    meta = fields.get("metadata") or {}
    properties = meta.get("properties") or {}
    secret = ENCODED_PROPERTY in properties or (properties and meta.get("sensitive"))
    if secret and not fields["deleted"] and has_encoded(view):
        raise NOT_PERMITTED(NOT_CONFIGURED)


def _sensitive_among(properties: dict[str, str], sensitive: Iterable[str] | None) -> list[str]:
    return [name for name in sensitive or () if name in properties]
