"""Memory of parsed and compared schemas that outlasts a computation."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable
from typing import Final

from registry.domain.lru import Lru
from registry.domain.model import Subject

from .schema_queries import SchemaAnswer, Source

# Generous estimates of the bytes that a version, an entry, and an index take.
_VERSION_BYTES: Final = 24
_PLACE_BYTES: Final = 200
_INDEX_BYTES: Final = 2_000
# Entries of removed versions, per version, beyond which an index is rebuilt.
_STALE_MAX: Final = 4
# Bytes that the fingerprints of one schema take, with their key; and those of a compatibility result.
FINGERPRINTS_BYTES: Final = 400
RESULT_BYTES: Final = 300
# The same for what a schema changes of the one before it, and for each character of its tags.
SUCCESSION_BYTES: Final = 500
_TAG_CHARACTER_BYTES: Final = 4


class VersionIndex:
    """The versions of one subject by keys derived from their meaning.

    A version is first added under an outline, which is cheap to compute and may be shared. Its keys are
    computed when its outline is first looked up. The index may contain versions that no longer exist, and
    false positives for a key.
    """

    def __init__(self) -> None:
        # Revision of the rows from which the versions were added.
        self.revision: Hashable | None = None
        # True if any version has references.
        self.refers = False
        self._versions = array("q")
        self._states = array("q")
        self._places: dict[bytes, int | list[int]] = {}
        self._unsure: set[int] = set()
        self._outlined: dict[bytes, list[int]] = {}
        self._without_keys: set[int] = set()
        self._entries = 0

    def __len__(self) -> int:
        return len(self._versions)

    @property
    def last(self) -> tuple[int, int] | None:
        """The highest version in the index and its state."""
        return (self._versions[-1], self._states[-1]) if self._versions else None

    def at(self, place: int) -> tuple[int, int]:
        """Return the version at a position, ascending from 0, and its state."""
        return self._versions[place], self._states[place]

    def add(self, version: int, state: int, outline: bytes | None) -> None:
        """Add a version above all others; without an outline it is equivalent to nothing."""
        self._versions.append(version)
        self._states.append(state)
        if outline is not None:
            self._outlined.setdefault(outline, []).append(version)
            self._without_keys.add(version)
            self._entries += 1

    def without_keys(self, outlines: Iterable[bytes] | None) -> list[int]:
        """Return the versions with one of the outlines (``None``: any) that have no keys yet."""
        found: list[int] = []
        for outline in list(self._outlined) if outlines is None else outlines:
            if outline in self._outlined:
                left = [each for each in self._outlined.pop(outline) if each in self._without_keys]
                if left:
                    self._outlined[outline] = left
                    found += left
        return found

    def settle(self, version: int, keys: Iterable[bytes] | None) -> None:
        """Set the keys of a version; ``None`` makes it a candidate of every lookup."""
        self._without_keys.discard(version)
        if keys is None:
            self._unsure.add(version)
            self._entries += 1
        for key in keys or ():
            self._entries += 1
            place = self._places.setdefault(key, version)
            if isinstance(place, list):
                place.append(version)
            elif place != version:
                self._places[key] = [place, version]

    def keep(self, count: int) -> None:
        """Keep the ``count`` lowest versions only; entries of the others may remain for a while."""
        if count == 0 or self._entries > _STALE_MAX * count + _STALE_MAX:
            self.clear()
        else:
            # A version number that is reused with other content may also be listed under its old outline.
            self._without_keys.difference_update(self._versions[count:])
            del self._versions[count:], self._states[count:]

    def clear(self) -> None:
        """Remove everything except the revision."""
        del self._versions[:], self._states[:]
        self._places.clear()
        self._unsure.clear()
        self._outlined.clear()
        self._without_keys.clear()
        self._entries, self.refers = 0, False

    def with_keys(self, keys: Iterable[bytes]) -> list[int]:
        """Return the versions with any of the keys, newest first."""
        found = set(self._unsure)
        for key in keys:
            place = self._places.get(key)
            if isinstance(place, list):
                found.update(place)
            elif place is not None:
                found.add(place)
        return sorted(found, reverse=True)

    @property
    def bytes(self) -> int:
        """Approximate memory use."""
        return _INDEX_BYTES + _VERSION_BYTES * len(self._versions) + _PLACE_BYTES * self._entries


class VersionIndexes:
    """Recently used indexes, at least one, up to ``bytes_max`` in total."""

    def __init__(self, bytes_max: int) -> None:
        self._kept = Lru[Subject, VersionIndex](bytes_max, least=1)

    def of(self, subject: Subject) -> VersionIndex:
        """Return the index of a subject, an empty one if there is none."""
        kept = self._kept.get(subject)
        return VersionIndex() if kept is None else kept

    def put(self, subject: Subject, index: VersionIndex) -> None:
        """Put an index after use."""
        self._kept.put(subject, index, index.bytes)


class SchemaMemory:
    """Results kept between computations. They change which queries are needed, but never a result.

    ``successions``: what pairs of schemas change, by the digests of their queries.
    ``compatible``: keys of ``passes`` queries whose schemas were found to pass.
    ``indexes``: the version indexes of subjects.
    """

    def __init__(self, bytes_max: int) -> None:
        self.compatible: Final = Lru[bytes, bool](bytes_max)
        self.fingerprints: Final = Lru[bytes, SchemaAnswer](bytes_max)
        self.successions: Final = Lru[bytes, SchemaAnswer](bytes_max)
        self.indexes = VersionIndexes(bytes_max)

    def put_compatible(self, key: bytes) -> None:
        """Record that the schemas of a ``passes`` query pass."""
        self.compatible.put(key, True, RESULT_BYTES)

    def put_succession(self, key: bytes, known: SchemaAnswer) -> None:
        """Record what a schema changes of the one before it."""
        tags = 0 if known.value is None else sum(map(len, known.value.tags))
        self.successions.put(key, known, SUCCESSION_BYTES + _TAG_CHARACTER_BYTES * tags)

    def own_fingerprint(self, source: Source) -> bytes | None:
        """Return the digest of a schema's meaning, if it is known."""
        known = self.fingerprints.get(source.digest)
        return None if known is None or known.value is None else known.value.own
