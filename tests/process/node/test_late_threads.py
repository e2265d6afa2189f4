"""A node that stops on a busy machine closes its store and its log before all threads have ended."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from registry.base.config.settings import Settings
from registry.base.processes import lmdb_check
from registry.base.processes.child_process import module_command
from registry.domain.log_format.lineage import Mismatch
from registry.domain.log_format.records import Entry
from registry.log.contract import LogClosed
from registry.log.embedded.log import EmbeddedLog
from registry.node.maintenance import Maintenance
from registry.node.replication.follower import Follower
from registry.node.replication.loop import FollowLoop
from registry.node.threads import Threads
from registry.store.layout import StoreClosed
from registry.store.lmdb import Store
from registry.store.open import open_store


class Parts(NamedTuple):
    """Log, store and loops of a standalone node."""

    log: EmbeddedLog
    store: Store
    following: FollowLoop
    maintenance: Maintenance

    def close(self) -> None:
        """Close the store and the log, in the node's order."""
        self.store.close()
        self.log.close()


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    log = EmbeddedLog(tmp_path / "log", map_bytes=64 << 20)
    log.append([Entry(b"key", b"value")])
    store, _ = open_store(tmp_path / "store", log.identity, 0, map_bytes=64 << 20)
    started = threading.Event()
    following = FollowLoop(log, store, Follower(log, store), caught_up=started.set)
    thread = threading.Thread(target=following.run, daemon=True)
    thread.start()
    assert started.wait(30)
    following.stop()
    thread.join(30)
    made = Parts(log, store, following, Maintenance(log, store, following, Settings(data=tmp_path)))
    yield made
    made.close()


def unread(parts: Parts) -> FollowLoop:
    """Return a loop for which there are records to apply."""
    parts.log.append([Entry(b"other", b"value")])
    return FollowLoop(parts.log, parts.store, Follower(parts.log, parts.store), caught_up=lambda: None)


RUNS: dict[str, Callable[[Parts], Callable[[], None]]] = {
    "maintenance": lambda parts: parts.maintenance.run,
    "follow": lambda parts: unread(parts).run,
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("close", [Parts.close, lambda parts: parts.store.close()], ids=["both", "store"])
def test_a_thread_that_outlasts_the_store_ends_and_neither_fails_nor_logs(
    parts: Parts, name: str, close: Callable[[Parts], None], caplog: pytest.LogCaptureFixture
) -> None:
    run, failures = RUNS[name](parts), list[str]()
    close(parts)
    Threads(failures.append).run_guarded(name, run)
    assert (failures, caplog.records) == ([], [])


def test_every_call_of_a_closed_store_says_that_it_is_closed(parts: Parts) -> None:
    store = parts.store
    store.close()
    calls: tuple[Callable[[], object], ...] = (
        store.view, store.stat, store.sync, store.reader_check, store.verify_step,
        lambda: store.commit({b"a": b"1"}, store.applied + 1), lambda: store.mark_at_end(1),
        lambda: store.set_mismatch(Mismatch("another log")), lambda: store.loaded_from, store.clear_history,
    )  # fmt: skip
    for call in calls:
        with pytest.raises(StoreClosed):
            call()


def test_reads_in_progress_end_after_the_store_and_the_log_were_closed(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LMDB would unmap the file under them; nobody waits for them longer than for a moment."""
    monkeypatch.setattr(lmdb_check, "_VIEWS_END_S", 0.0)
    with parts.store.view() as view, parts.log._begin_reading() as txn:
        parts.close()
        assert view.applied() == 1
        assert txn.stat(parts.log._tables.records)["entries"] == 1
    with pytest.raises(LogClosed):
        parts.log.read(0, 1, 1)
    folder = parts.store.path
    _, environment = module_command("registry")
    seen = subprocess.run(
        [sys.executable, "-c", IS_CLEAN, str(folder)],
        capture_output=True, text=True, check=True, env=environment,
    )  # fmt: skip
    assert seen.stdout == "b'1'\n"


# Another process can have it open as well, as this one perhaps still does.
IS_CLEAN = """
import sys
from pathlib import Path
from registry.store.examination import read_meta
from registry.store.layout import META_CLEAN
print(read_meta(Path(sys.argv[1]))[META_CLEAN])
"""
