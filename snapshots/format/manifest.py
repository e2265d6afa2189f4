"""The manifest of a snapshot: its parts, the log and offset that its rows belong to, checksums, a signature.

The file ``manifest.hmac`` next to a manifest holds the HMAC-SHA256 of its bytes in hexadecimal digits. The
manifest holds the hashes of all parts, so it covers them, too.

A snapshot is a folder: files ``part-….arrow`` with the rows in key order (:mod:`.parts`), and
``manifest.json``, which is written last. A folder without a manifest is not a snapshot.

A *full* snapshot holds all its rows (:data:`FORMAT`). Others refer to the parts of a full one, and to deltas:
files ``delta-….arrow`` with the changes that came later (:data:`DELTA_FORMAT`). Releases that know only the
first format reject the second by its name and take an earlier snapshot, so the meaning of a format never
changes.

The file is JSON. Its last member is the SHA-256, in hexadecimal digits, of all bytes before this member, so
that any flipped bit is detected. Future formats must keep this rule.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from registry.domain.log_format.lineage import NOTHING, Lineage

SIGNATURE = "manifest.hmac"
SIGNATURE_BYTES_MAX = 100


class ManifestKeys(NamedTuple):
    """The secrets that sign manifests."""

    # Signs and is accepted.
    current: str = ""
    # Is accepted, too, while keys are changed; empty for none.
    old: str = ""

    def sign(self, manifest: bytes) -> bytes:
        """Return the content of the signature's file."""
        return f"{_digits(self.current, manifest)}\n".encode()

    def accept(self, manifest: bytes, signature: bytes) -> bool:
        """Return whether the content of the signature's file belongs to a manifest."""
        found = [
            hmac.compare_digest(signature.strip(), _digits(key, manifest).encode()) for key in self if key
        ]
        return any(found)


# Manifests are neither signed nor checked.
NO_KEYS = ManifestKeys()


def _digits(key: str, manifest: bytes) -> str:
    return hmac.new(key.encode(), manifest, "sha256").hexdigest()


MANIFEST = "manifest.json"
FORMAT = "registrar-snapshot 1"
DELTA_FORMAT = "registrar-snapshot 2"
FORMATS = (FORMAT, DELTA_FORMAT)
FORMATS_TEXT = " and ".join(map(repr, FORMATS))
DIGEST_DIGITS = 32
# The most that the rows of a part, and so its file, may take: 32 MiB and its last row, which is about as
# large as a record of the log (setting record_bytes_max).
PART_BYTES_MAX = 256 << 20
# A manifest has about 300 bytes for each part.
MANIFEST_BYTES_MAX = 64 << 20
# Deltas of a snapshot at most; all are merged when it is loaded.
DELTAS_MAX = 100
_INT_MAX = 2**63 - 1
_LAST_MS = 253_402_300_799_999  # of the year 9999
_ID = re.compile(r"\d{8}T\d{6}Z-\d{12,}-[0-9a-f]{6}")
_PART_NAME = re.compile(r"part-[0-9a-f]{16}\.arrow")
_DELTA_NAME = re.compile(r"delta-[0-9a-f]{16}\.arrow")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_HASH_BEGINS = b',\n "sha256": "'
_HASH_ENDS = b'"\n}\n'


class BadManifest(Exception):
    """The bytes are not a usable manifest; the text says why."""


class UnknownFormat(BadManifest):
    """A manifest of a later release; this one does not know what it refers to."""


class Part(NamedTuple):
    """One file of rows."""

    name: str
    rows: int
    # Bytes of the file, and its SHA-256 in hexadecimal digits.
    size: int
    sha256: str
    # Keys of the first and the last row.
    first: bytes
    last: bytes


class Delta(NamedTuple):
    """Changes of rows, in files of their own (:mod:`.deltas`)."""

    # Id of the snapshot in whose folder the files are.
    snapshot: str
    # In the order of their keys; ``rows`` is the number of changes.
    parts: tuple[Part, ...]


class Manifest(NamedTuple):
    """The manifest of a snapshot. Times are milliseconds since the epoch."""

    id: str
    format: str
    # Version of the fold that made the rows.
    fold: int
    # Identity of the log, as a store keeps it.
    log: str
    # Offset of the next record to apply: the rows are the fold of all records before it.
    offset: int
    # The offset from which the digest may be compared with that of a full fold: ``offset``, unless
    # compaction may have removed records while the log was read.
    comparable_from: int
    # When the rows were known to be those at the log's end: the clock when the log was asked for its end.
    at_end_ms: int
    # When the manifest was written.
    created_ms: int
    # ``spark``, ``local`` or ``delta``.
    engine: str
    # Id of the snapshot that was extended; empty if the whole log was read.
    base: str
    # Number of rows by the letter of their table.
    counts: Mapping[str, int]
    # Digest of all rows, see registry.domain.rows.digest.
    digest: int
    # In the order of their keys; with deltas, those of the snapshot ``full``.
    parts: tuple[Part, ...]
    # Lineage of the log up to ``offset``; empty in manifests of older versions.
    lineage: Lineage = NOTHING
    # The keyset of encrypted metadata, itself encrypted; empty if no row needs one.
    keyset: str = ""
    # Id of the full snapshot that has the parts; empty for this one.
    full: str = ""
    # What changes the rows of the parts, in this order.
    deltas: tuple[Delta, ...] = ()

    @property
    def folder(self) -> str:
        """The folder of the parts."""
        return self.full or self.id

    @property
    def needs(self) -> frozenset[str]:
        """Ids of the other snapshots whose files this one refers to."""
        return frozenset({self.folder, *(delta.snapshot for delta in self.deltas)} - {self.id})

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(self.counts.values())

    @property
    def size(self) -> int:
        """Size of all files of rows in bytes, also of those of other snapshots."""
        return sum(part.size for part in self.parts) + self.delta_bytes

    @property
    def delta_bytes(self) -> int:
        """Size of the deltas' files in bytes."""
        return sum(part.size for delta in self.deltas for part in delta.parts)

    @property
    def sha256(self) -> str:
        """SHA-256 of the file ``manifest.json`` in hexadecimal digits; it covers the parts, too."""
        return hashlib.sha256(self.dumps()).hexdigest()

    def dumps(self) -> bytes:
        """Return the content of the file ``manifest.json``."""
        fields = self._asdict()
        fields["counts"] = dict(sorted(self.counts.items()))
        fields["digest"] = f"{self.digest:0{DIGEST_DIGITS}x}"
        fields["lineage"] = self.lineage.pack().hex()
        fields["parts"] = _describe(self.parts)
        fields["deltas"] = [
            {"snapshot": delta.snapshot, "parts": _describe(delta.parts)} for delta in self.deltas
        ]
        if not self.keyset:
            del fields["keyset"]
        if self.format == FORMAT:
            del fields["full"], fields["deltas"]
        return seal(fields)

    @classmethod
    def loads(cls, data: bytes) -> Manifest:
        """Return the manifest in ``data``. Raises :class:`BadManifest`."""
        try:
            fields = unseal(data)
            if fields.get("format") not in FORMATS:
                raise UnknownFormat(
                    f"it has the format {fields.get('format')!r}; this version reads {FORMATS_TEXT}"
                )
            manifest = _manifest(fields)
            problem = next(_problems(manifest), "")
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise BadManifest(f"a member is missing or invalid: {error}") from error
        if problem:
            raise BadManifest(problem)
        return manifest


def seal(fields: Mapping[str, Any]) -> bytes:
    """Return a JSON object that ends with the hash of everything before it."""
    head = json.dumps(fields, indent=1).encode().removesuffix(b"\n}")
    return head + _HASH_BEGINS + hashlib.sha256(head).hexdigest().encode() + _HASH_ENDS


def unseal(data: bytes) -> dict[str, Any]:
    """Return the members of an object that was sealed, without the hash.

    Raises :class:`BadManifest`, and ``ValueError`` or ``RecursionError`` if it is no JSON.
    """
    head, _, tail = data.rpartition(_HASH_BEGINS)
    if tail != hashlib.sha256(head).hexdigest().encode() + _HASH_ENDS:
        raise BadManifest("its content does not match the hash at its end: damaged or truncated")
    fields: dict[str, Any] = json.loads(head + b"}")
    return fields


def new_id(offset: int, now_ms: int, random: int) -> str:
    """Return an id for a snapshot at ``offset``; ids sort by time and are names of folders.

    ``now_ms`` may be any number, since the times of markers come from the log's writers. ``random``: a
    random number, of which 24 bits are used, to distinguish two snapshots of one second.
    """
    moment = datetime.fromtimestamp(min(max(0, now_ms), _LAST_MS) // 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"{moment}-{offset:012d}-{random & 0xFFFFFF:06x}"


def is_id(name: str) -> bool:
    """Return whether ``name`` may be the id of a snapshot."""
    return _ID.fullmatch(name) is not None


def part_name(sha256: str) -> str:
    """Return the name of the part whose file has this hash."""
    return f"part-{sha256[:16]}.arrow"


def delta_name(sha256: str) -> str:
    """Return the name of the file of a delta that has this hash."""
    return f"delta-{sha256[:16]}.arrow"


def _describe(parts: Iterable[Part]) -> list[dict[str, Any]]:
    return [part._asdict() | {"first": part.first.hex(), "last": part.last.hex()} for part in parts]


def _manifest(fields: dict[str, Any]) -> Manifest:
    parts = tuple(_part(each) for each in fields["parts"])
    lineage = Lineage.unpack(bytes.fromhex(fields.get("lineage", "")))
    known = {name: fields[name] for name in Manifest._fields if name not in Manifest._field_defaults}
    known["keyset"] = fields.get("keyset", "")
    if fields["format"] == DELTA_FORMAT:
        known["full"] = fields["full"]
        known["deltas"] = tuple(
            Delta(each["snapshot"], tuple(_part(part) for part in each["parts"])) for each in fields["deltas"]
        )
    return Manifest(**known | {"digest": int(fields["digest"], 16), "parts": parts, "lineage": lineage})


def _part(fields: dict[str, Any]) -> Part:
    known = {name: fields[name] for name in Part._fields}
    return Part(**known | {name: bytes.fromhex(fields[name]) for name in ("first", "last")})


def _problems(manifest: Manifest) -> Iterator[str]:
    whole = (manifest.fold, manifest.offset, manifest.comparable_from, *manifest.counts.values())
    if not all(type(number) is int and 0 <= number <= _INT_MAX for number in whole):
        yield "its numbers are invalid"
    # It may be the time of a record, which writers of the log choose.
    if not (type(manifest.at_end_ms) is int and abs(manifest.at_end_ms) <= _INT_MAX):
        yield "its times are invalid"
    if not (type(manifest.created_ms) is int and 0 <= manifest.created_ms <= _LAST_MS):
        yield "its times are invalid"
    texts = (manifest.id, manifest.log, manifest.engine, manifest.base, manifest.keyset)
    if not all(type(text) is str for text in texts):
        yield "its names are invalid"
    if not 0 <= manifest.digest < 1 << 4 * DIGEST_DIGITS:
        yield "its digest is invalid"
    if not is_id(manifest.id):
        yield f"{manifest.id!r} is not the id of a snapshot"
    yield from _part_problems(manifest.parts, _PART_NAME)
    held = sum(part.rows for part in manifest.parts)
    if manifest.format == DELTA_FORMAT:
        yield from _delta_problems(manifest)
    elif held != manifest.rows:
        yield "its parts and its tables have different numbers of rows"


def _part_problems(parts: Iterable[Part], names: re.Pattern[str]) -> Iterator[str]:
    previous = b""
    for part in parts:
        if not (names.fullmatch(part.name) and _SHA256.fullmatch(part.sha256)):
            yield f"{part.name!r} is not the name of a part"
        if not all(type(number) is int and number > 0 for number in (part.rows, part.size)):
            yield f"the numbers of {part.name} are invalid"
        elif max(part.rows, part.size) > PART_BYTES_MAX:
            yield f"{part.name} has {part.size} bytes and {part.rows} rows, more than any part"
        elif not previous < part.first <= part.last:
            yield f"{part.name} does not follow the part before it"
        previous = part.last


def _delta_problems(manifest: Manifest) -> Iterator[str]:
    ids = [manifest.full, *(delta.snapshot for delta in manifest.deltas)]
    if not all(type(each) is str and is_id(each) for each in ids) or len({*ids}) < len(ids):
        yield "it does not say which snapshots have its files"
    if manifest.full == manifest.id:
        yield "its deltas are upon itself"
    if not 0 < len(manifest.deltas) <= DELTAS_MAX:
        yield f"it has {len(manifest.deltas)} deltas"
    for delta in manifest.deltas:
        yield from _part_problems(delta.parts, _DELTA_NAME)
