"""What a process remembers of the schemas that it has read and compared."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, TypeVar

from .schema_queries import SchemaAnswer, Source
from .version_index import VersionIndexes

# What the fingerprints of one schema take in memory, with their key; and a verdict.
FINGERPRINTS_BYTES: Final = 400
VERDICT_BYTES: Final = 300

_K = TypeVar("_K")
_V = TypeVar("_V")


class Kept(Generic[_K, _V]):
    """The values used last, as many as ``bytes_max`` allows for."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._values: OrderedDict[_K, tuple[_V, int]] = OrderedDict()

    def get(self, key: _K) -> _V | None:
        """Return a value, which counts as used."""
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def put(self, key: _K, value: _V, weight: int) -> None:
        """Keep a value that takes so many bytes."""
        before = self._values.pop(key, None)
        self._bytes += weight - (before[1] if before is not None else 0)
        self._values[key] = value, weight
        while self._bytes > self._bytes_max:
            _, (_, dropped) = self._values.popitem(last=False)
            self._bytes -= dropped


class SchemaMemory:
    """What is remembered beyond one computation. It changes what has to be asked, and no result.

    ``compatible``: earlier schemas that were found to pass, by the ``key`` of a query ``passes``.
    ``indexes``: the versions of subjects, by what they say.
    """

    def __init__(self, bytes_max: int) -> None:
        self.compatible: Final = Kept[bytes, bool](bytes_max)
        self.fingerprints: Final = Kept[bytes, SchemaAnswer](bytes_max)
        self.indexes = VersionIndexes(bytes_max)

    def put_compatible(self, key: bytes) -> None:
        """Remember that a schema passes."""
        self.compatible.put(key, True, VERDICT_BYTES)

    def own_fingerprint(self, source: Source) -> bytes | None:
        """Return the digest of what a schema says, if that was found before."""
        known = self.fingerprints.get(source.digest)
        return None if known is None or known.value is None else known.value.own
