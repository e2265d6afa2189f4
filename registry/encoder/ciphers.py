"""Ciphers for sensitive metadata: the node follows and writes the keyset, readers use a copy of it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from registry.domain.errors import STORE_FAILED
from registry.domain.log_format import values
from registry.domain.log_format.records import Record
from registry.domain.rows.version_row import ENCODED_MARK
from registry.log.contract import LogError, Unreachable

from .keyset import BadKeyset, Keyset, KeysetFile, KeysetStore, WrongSecret, key_id

_AGAIN_S = 5.0  # minimum time between reloads for a missing key
_log = logging.getLogger(__name__)


class Secrets(NamedTuple):
    """The current secret that keysets are encrypted with, and the previous one, which may be empty."""

    new: str
    old: str

    def __repr__(self) -> str:
        """Return a text without the secrets."""
        return "Secrets(***)"

    def open_keyset(self, data: bytes, location: str) -> tuple[Keyset, bool]:
        """Return a keyset, and true if only the old secret opens it. Raises :class:`LogError`."""
        try:
            for secret, is_old in ((self.new, False), (self.old, True)):
                if secret:
                    try:
                        return Keyset.loads(data, secret), is_old
                    except WrongSecret:
                        continue
        except BadKeyset as error:
            raise LogError(
                f"the keyset in {location} cannot be read: {error}; nothing was overwritten"
            ) from error
        also = ", nor does metadata_encoder_old_secret" if self.old else ""
        raise LogError(
            f"metadata_encoder_secret does not open the keyset in {location}{also}: set the secret that it "
            "was written with; nothing was overwritten"
        )


class ReaderCipher:
    """Decrypts with the keyset in the data folder; reloads it when a value names an unknown key."""

    def __init__(self, secrets: Secrets, copy: KeysetFile) -> None:
        self._secrets = secrets
        self._copy = copy
        self._mark: tuple[int, int] | None = None
        self._keyset: Keyset | None = None

    def encrypt(self, plain: str) -> str:
        """Refuse: readers never encrypt."""
        raise STORE_FAILED("A reader does not encrypt")

    def decrypt(self, text: str) -> str | None:
        """Return the value; see :meth:`registry.domain.queries.sensitive_metadata.Cipher.decrypt`."""
        if self._keyset is None or key_id(text) not in self._keyset.keys:
            self._look()
        return None if self._keyset is None else self._keyset.decrypt(text)

    def _look(self) -> None:
        mark = self._copy.mark()
        if mark is None or mark == self._mark:
            return
        self._mark = mark
        try:
            data = self._copy.read()
            if data is not None:
                self._keyset = self._secrets.open_keyset(data, self._copy.name)[0]
        except LogError as error:
            _log.error("%s", error)


class NodeCipher:
    """Encrypts and decrypts with the keyset in ``store``, and maintains the copy for readers.

    One thread at a time, which writes, encrypts; any thread may decrypt. ``has_encoded`` returns true if the
    log has encrypted metadata.
    """

    def __init__(
        self, secrets: Secrets, store: KeysetStore, copy: KeysetFile, *, has_encoded: Callable[[], bool]
    ) -> None:
        self._secrets = secrets
        self._store = store
        self._copy = copy
        self._has_encoded = has_encoded
        self._alone = threading.Lock()
        self._keyset: Keyset | None = None
        self._stale = False
        self._missing: dict[int, float] = {}
        self._error = ""

    @property
    def last_error(self) -> str:
        """Return why sensitive metadata cannot be written or not all be read; empty if it can."""
        if self._error or self._keyset is not None or not self._has_encoded():
            return self._error
        return self._describe_loss()

    @property
    def is_blocked(self) -> bool:
        """True if :meth:`encrypt` would first read or write the keyset, which may take seconds."""
        return self._keyset is None or bool(self._error)

    def start(self) -> None:
        """Load the keyset; use the copy if the keyset is temporarily out of reach.

        Raises :class:`LogError`, also for a wrong secret.
        """
        with self._alone:
            try:
                self._store.make()
                self._refresh()
            except Unreachable as error:
                _log.warning("cannot read the keyset of encrypted metadata yet: %s", error)
                data = self._copy.read()
                if data is not None:
                    self._keyset, self._stale = self._secrets.open_keyset(data, self._copy.name)

    def reload_and_rotate(self) -> None:
        """Reload the keyset, and rotate one that only the old secret opens.

        Called on the primary only, before it writes. Raises :class:`LogError`.
        """
        with self._alone:
            try:
                self._refresh()
            except Unreachable:
                raise
            except LogError as error:
                self._note_failure(error)  # everything else can still be written
                return
            if self._keyset is not None and self._stale:
                self._write(self._keyset.with_new_primary())
                _log.info(
                    "the keyset in %s got a new key and was rewritten with the new secret", self._store.name
                )

    def reload_if_needed(self, records: Iterable[Record]) -> None:
        """Reload the keyset if records name unknown keys; keys are written before such records."""
        wanted = {
            number
            for record in records
            if record.value is not None and ENCODED_MARK in record.value
            for number in _ids_in(record.value)
        }
        if wanted and not self._knows(wanted):
            with self._alone:
                self._look_for(wanted)

    def encrypt(self, plain: str) -> str:
        """Encrypt a value, see :class:`.sensitive_metadata.Cipher`; the first call writes the keyset."""
        with self._alone:
            if self._keyset is None or self._error:
                self._make_usable()
            assert self._keyset is not None
            return self._keyset.encrypt(plain)

    def decrypt(self, text: str) -> str | None:
        """Return the value; see :meth:`registry.domain.queries.sensitive_metadata.Cipher.decrypt`."""
        return None if self._keyset is None else self._keyset.decrypt(text)

    def _make_usable(self) -> None:
        try:
            # The stored keyset takes precedence: another node may have written it.
            self._refresh()
            if self._keyset is None:
                self._write_first()
        except LogError as error:
            self._note_failure(error)
            raise STORE_FAILED(f"Sensitive metadata cannot be encrypted: {error}") from error

    def _write_first(self) -> None:
        if self._has_encoded():
            raise LogError(self._describe_loss())
        self._write(Keyset.new())
        _log.info("wrote a keyset for sensitive metadata to %s", self._store.name)

    def _describe_loss(self) -> str:
        return (
            f"the log has encrypted metadata, but {self._store.name} holds no keyset: restore it, or set the "
            "right location"
        )

    def _knows(self, ids: set[int]) -> bool:
        return self._keyset is not None and ids <= self._keyset.keys.keys()

    def _look_for(self, ids: set[int]) -> None:
        now = time.monotonic()
        known = () if self._keyset is None else self._keyset.keys
        missing = {each for each in ids if each not in known and self._missing.get(each, now) <= now}
        if not missing:
            return
        try:
            self._refresh()
        except LogError as error:
            self._note_failure(error)
        if len(self._missing) > 1000:
            self._missing.clear()
        self._missing.update(dict.fromkeys(missing, now + _AGAIN_S))

    def _refresh(self) -> None:
        data = self._store.read()
        if data is None:
            return
        self._keyset, self._stale = self._secrets.open_keyset(data, self._store.name)
        self._error = ""
        self._keep(data)

    def _write(self, keyset: Keyset) -> None:
        """Write a keyset, merging the keys of any that another writer added meanwhile."""
        while True:
            data = keyset.dumps(self._secrets.new)
            others = self._store.write(data)
            # Readers must have the key before any record needs it.
            self._keep(data)
            self._keyset, self._stale = keyset, False
            united = keyset
            for other in others:
                united = united.with_keys_of(self._secrets.open_keyset(other, self._store.name)[0])
            if united == keyset:
                return
            keyset = united

    def _keep(self, data: bytes) -> None:
        if self._copy.read() != data:
            self._copy.write(data)

    def _note_failure(self, error: LogError) -> None:
        if str(error) != self._error:
            _log.error("sensitive metadata: %s", error)
        self._error = str(error)


def _ids_in(value: bytes) -> set[int]:
    """Return the ids of the keys that a record's encrypted properties name."""
    try:
        meta = values.read_schema(value).metadata
    except values.BadValue:
        return set()
    properties = {} if meta is None else meta.properties or {}
    named = [] if meta is None else meta.sensitive or []
    found = (key_id(properties[name]) for name in named if name in properties)
    return {each for each in found if each is not None}
