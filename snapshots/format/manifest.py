"""The manifest of a snapshot: what its parts are, what its rows are the fold of, and how to tell damage.

A snapshot is a folder: files ``part-….arrow`` with the rows in key order (:mod:`.parts`), and
``manifest.json``, which is written last. A folder without a manifest is no snapshot.

The file is JSON; its last member is the SHA-256, in hexadecimal digits, of all bytes that stand before this
member, so that any flipped bit is noticed, whatever it changes. Formats to come keep this rule.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from registry.domain.log_format.lineage import NOTHING, Lineage

MANIFEST = "manifest.json"
FORMAT = "registrar-snapshot 1"
DIGEST_DIGITS = 32
_LAST_MS = 253_402_300_799_999
"""Of the last year with four digits."""

_ID = re.compile(r"\d{8}T\d{6}Z-\d{12,}-[0-9a-f]{6}")
_PART_NAME = re.compile(r"part-[0-9a-f]{16}\.arrow")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_HASH_BEGINS = b',\n "sha256": "'
_HASH_ENDS = b'"\n}\n'


class BadManifest(Exception):
    """These bytes are not a manifest that can be used; the text says why."""


class Part(NamedTuple):
    """One file of rows."""

    name: str
    rows: int
    size: int
    """Bytes of the file."""
    sha256: str
    """Of the file, hexadecimal digits."""
    first: bytes
    """Key of the first row."""
    last: bytes
    """Key of the last row."""


class Manifest(NamedTuple):
    """What a snapshot says of itself."""

    id: str
    format: str
    fold: int
    """Version of the fold that made the rows."""
    log: str
    """Identity of the log, as a store keeps it."""
    offset: int
    """Offset of the next record to apply: the rows are the fold of all before it."""
    comparable_from: int
    """From this offset on the digest may be compared with that of a full fold.

    It is ``offset``, unless compaction may have taken records away while the log was read.
    """
    at_end_ms: int
    """When the rows were known to be those at the log's end, ms since the epoch: the clock as the log was
    asked where it ends."""
    created_ms: int
    """When the manifest was written, ms since the epoch."""
    engine: str
    """What made it: ``spark`` or ``local``."""
    base: str
    """Id of the snapshot that was extended; empty when the whole log was read."""
    counts: Mapping[str, int]
    """Rows by the letter of their table."""
    digest: int
    """Digest of all rows, see :mod:`registry.domain.rows.digest`."""
    parts: tuple[Part, ...]
    """In the order of their keys."""
    lineage: Lineage = NOTHING
    """What is remembered of the log up to ``offset``; nothing in manifests of older versions."""
    keyset: str = ""
    """The keyset of encrypted metadata, encrypted as it is; empty where no row needs one."""

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(self.counts.values())

    @property
    def size(self) -> int:
        """Bytes of all parts' files."""
        return sum(part.size for part in self.parts)

    def dumps(self) -> bytes:
        """The content of the file ``manifest.json``."""
        fields = self._asdict()
        fields["counts"] = dict(sorted(self.counts.items()))
        fields["digest"] = f"{self.digest:0{DIGEST_DIGITS}x}"
        fields["lineage"] = self.lineage.pack().hex()
        fields["parts"] = [
            part._asdict() | {"first": part.first.hex(), "last": part.last.hex()} for part in self.parts
        ]
        if not self.keyset:
            del fields["keyset"]
        head = json.dumps(fields, indent=1).encode().removesuffix(b"\n}")
        return head + _HASH_BEGINS + hashlib.sha256(head).hexdigest().encode() + _HASH_ENDS

    @classmethod
    def loads(cls, data: bytes) -> Manifest:
        """The manifest in ``data``. Raises :class:`BadManifest`."""
        head, _, tail = data.rpartition(_HASH_BEGINS)
        if tail != hashlib.sha256(head).hexdigest().encode() + _HASH_ENDS:
            raise BadManifest("its content does not have the hash that stands at its end: damaged or cut")
        try:
            fields: dict[str, Any] = json.loads(head + b"}")
            if fields.get("format") != FORMAT:
                raise BadManifest(
                    f"it has the format {fields.get('format')!r}; this version reads {FORMAT!r}"
                )
            manifest = _manifest(fields)
            problem = next(_problems(manifest), "")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise BadManifest(f"a member is missing or makes no sense: {error}") from error
        if problem:
            raise BadManifest(problem)
        return manifest


def new_id(offset: int, now_ms: int, chance: int) -> str:
    """An id for a snapshot at ``offset``; ids sort by time. It is also the name of a folder.

    ``now_ms`` may be any number: the times of markers are said by whoever writes to the log. ``chance``: a
    random number, of which 24 bits count, for two snapshots of one second.
    """
    moment = datetime.fromtimestamp(min(max(0, now_ms), _LAST_MS) // 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"{moment}-{offset:012d}-{chance & 0xFFFFFF:06x}"


def is_id(name: str) -> bool:
    """Whether ``name`` may be the id of a snapshot."""
    return _ID.fullmatch(name) is not None


def part_name(sha256: str) -> str:
    """The name of the part whose file has this hash."""
    return f"part-{sha256[:16]}.arrow"


def _manifest(fields: dict[str, Any]) -> Manifest:
    parts = tuple(_part(each) for each in fields["parts"])
    lineage = Lineage.unpack(bytes.fromhex(fields.get("lineage", "")))
    optional = {"lineage", "keyset"}
    known = {name: fields[name] for name in Manifest._fields if name not in optional}
    known["keyset"] = fields.get("keyset", "")
    return Manifest(**known | {"digest": int(fields["digest"], 16), "parts": parts, "lineage": lineage})


def _part(fields: dict[str, Any]) -> Part:
    known = {name: fields[name] for name in Part._fields}
    return Part(**known | {name: bytes.fromhex(fields[name]) for name in ("first", "last")})


def _problems(manifest: Manifest) -> Iterator[str]:
    whole = (manifest.fold, manifest.offset, manifest.comparable_from, *manifest.counts.values())
    if not all(type(number) is int and number >= 0 for number in whole):
        yield "its numbers make no sense"
    if not all(type(number) is int for number in (manifest.at_end_ms, manifest.created_ms)):
        yield "its times make no sense"
    texts = (manifest.id, manifest.log, manifest.engine, manifest.base, manifest.keyset)
    if not all(type(text) is str for text in texts):
        yield "its names make no sense"
    if not 0 <= manifest.digest < 1 << 4 * DIGEST_DIGITS:
        yield "its digest makes no sense"
    if not is_id(manifest.id):
        yield f"{manifest.id!r} is not the id of a snapshot"
    previous = b""
    for part in manifest.parts:
        if not (_PART_NAME.fullmatch(part.name) and _SHA256.fullmatch(part.sha256)):
            yield f"{part.name!r} is not the name of a part"
        if not all(type(number) is int and number > 0 for number in (part.rows, part.size)):
            yield f"the numbers of {part.name} make no sense"
        elif not previous < part.first <= part.last:
            yield f"{part.name} is not in order behind the part before it"
        previous = part.last
    if sum(part.rows for part in manifest.parts) != manifest.rows:
        yield "its parts do not have as many rows as its tables"
