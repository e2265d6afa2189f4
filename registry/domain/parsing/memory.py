"""Memory of parsed and compared schemas that outlasts a computation."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, TypeVar

from .schema_queries import SchemaAnswer, Source
from .version_index import VersionIndexes

# Bytes that the fingerprints of one schema take, with their key; and those of a compatibility result.
FINGERPRINTS_BYTES: Final = 400
VERDICT_BYTES: Final = 300

_K = TypeVar("_K")
_V = TypeVar("_V")


class Kept(Generic[_K, _V]):
    """An LRU cache bounded by the total weight of its values, ``bytes_max``."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._values: OrderedDict[_K, tuple[_V, int]] = OrderedDict()

    def get(self, key: _K) -> _V | None:
        """Return a value and mark it as recently used."""
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def put(self, key: _K, value: _V, weight: int) -> None:
        """Put a value of ``weight`` bytes; evict the least recently used ones beyond the bound."""
        before = self._values.pop(key, None)
        self._bytes += weight - (before[1] if before is not None else 0)
        self._values[key] = value, weight
        while self._bytes > self._bytes_max:
            _, (_, dropped) = self._values.popitem(last=False)
            self._bytes -= dropped


class SchemaMemory:
    """Results kept between computations. They change which queries are needed, but never a result.

    ``compatible``: keys of ``passes`` queries whose schemas were found to pass.
    ``indexes``: the version indexes of subjects.
    """

    def __init__(self, bytes_max: int) -> None:
        self.compatible: Final = Kept[bytes, bool](bytes_max)
        self.fingerprints: Final = Kept[bytes, SchemaAnswer](bytes_max)
        self.indexes = VersionIndexes(bytes_max)

    def put_compatible(self, key: bytes) -> None:
        """Record that the schemas of a ``passes`` query pass."""
        self.compatible.put(key, True, VERDICT_BYTES)

    def own_fingerprint(self, source: Source) -> bytes | None:
        """Return the digest of a schema's meaning, if it is known."""
        known = self.fingerprints.get(source.digest)
        return None if known is None or known.value is None else known.value.own
