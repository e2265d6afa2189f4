"""The search index over the rows and the log of a registry in this process."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from registry.domain.rows.view import View
from registry.log.contract import Fetched, LogError
from registry.search.filler import IndexFiller
from registry.search.index import SearchIndex
from registry.security.gate import Gate
from tests.api.driver import Api, ListBackend

MAP_BYTES = 64 << 20


class Rows:
    """The rows of a backend as a store, and its log."""

    def __init__(self, backend: ListBackend, path: Path) -> None:
        self.backend = backend
        self.path = path
        self.identity = "log"
        self.read_from: list[int] = []
        # Raised instead of what the log says.
        self.lost: LogError | None = None

    @property
    def applied(self) -> int:
        return len(self.backend.log)

    def view(self) -> AbstractContextManager[View]:
        return self.backend.view()

    def read_again(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        if self.lost is not None:
            raise self.lost
        self.read_from.append(offset)
        records = self.backend.log[offset : offset + records_max]
        return Fetched(records, offset + len(records))


class Searching:
    """A registry whose subjects can be searched; ``fill`` does what the node's thread does."""

    def __init__(self, folder: Path, gate: Gate | None = None) -> None:
        folder.mkdir(exist_ok=True)
        self.index = SearchIndex(folder / "search", MAP_BYTES, writable=True)
        self.index.open()
        self.api = Api(index=self.index) if gate is None else Api(index=self.index, gate=gate)
        self.rows = Rows(self.api.backend, folder)
        self.filler = IndexFiller(self.rows, self.rows, self.index)

    def fill(self) -> int:
        """Fill the index; return the number of slices."""
        slices = 0
        while not self.filler.step():
            slices += 1
        return slices

    def close(self) -> None:
        self.api.close()
        self.index.close()
