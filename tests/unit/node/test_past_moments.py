"""The offset that a moment of the past stands for."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from registry.domain.errors import RegistryError
from registry.domain.history.moment import Moment
from registry.domain.log_format.records import NOOP_KEY, Entry
from registry.log.embedded.log import EmbeddedLog
from registry.node.past.reconstruction import PastReader, SnapshotRows
from registry.store.lmdb import Store
from tests.simulation.memory_store import MemoryStore

NOW_MS = 100


def test_a_time_means_the_last_record_that_is_not_newer_and_that_is_applied(tmp_path: Path) -> None:
    times = iter((10, 20, 20, 30, 40))
    log, store = EmbeddedLog(tmp_path, clock=lambda: next(times)), MemoryStore({}, lambda *_: True)
    for _ in range(5):
        log.append([Entry(NOOP_KEY, None)])
    store.commit_folded([], [], applied=4)
    past = PastReader(log, cast("Store", store), SnapshotRows(log, list), lambda: NOW_MS)

    def applied(time_ms: int) -> int:
        return past.reconstruct(Moment(time_ms=time_ms), [], lambda: None).applied

    found = {at: applied(at) for at in (9, 10, 19, 20, 30, 39, 40, NOW_MS)}
    assert found == {9: 0, 10: 1, 19: 1, 20: 3, 30: 4, 39: 4, 40: 4, NOW_MS: 4}
    for moment in (Moment(time_ms=NOW_MS + 1), Moment(4)):
        with pytest.raises(RegistryError):
            past.reconstruct(moment, [], lambda: None)
    log.close()
