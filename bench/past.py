"""Measure the history of subjects: what it costs to keep and to fill, and reads of the past.

    python bench/past.py [--records 100000] [--schema-bytes 400] [--folder /tmp]

Records are first versions under as many subjects, as in ``bench/fold.py``; then 1,000 of these subjects get a
config each. Times are processor time of this process, so that other load on the machine matters little.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.fold import build
from registry.domain.history.entries import packed_owner
from registry.domain.history.moment import Moment, walk
from registry.domain.log_format.records import Entry, config_key
from registry.domain.model import Subject
from registry.log.embedded.log import EmbeddedLog, now_ms
from registry.node.past.reconstruction import PastReader, SnapshotRows
from registry.node.past.thread import HistoryFiller
from registry.node.replication.follower import Follower
from registry.store.lmdb import Store
from registry.store.open import open_store

SUBJECTS = 1_000


def cpu_of(call: Callable[[], object]) -> float:
    """Return the seconds of this process' CPU that a call takes."""
    began = time.process_time()
    call()
    return time.process_time() - began


def fold_log(log: EmbeddedLog, folder: Path, *, history: bool) -> tuple[Store, float]:
    """Return a store that has folded the log in steps as small as a node's live ones, and the CPU seconds."""
    store, _ = open_store(folder, log.identity, log.end())
    follower = Follower(log, store, far_behind=None, history=history)

    def fold() -> None:
        while store.applied < log.end():
            follower.step(100)

    return store, cpu_of(fold)


def set_configs(records: int) -> list[Subject]:
    """Return the subjects that get a config."""
    chance = random.Random(1)
    return [
        Subject(".", f"team-{number:07d}.orders-value") for number in chance.sample(range(records), SUBJECTS)
    ]


def measure(log: EmbeddedLog, options: argparse.Namespace, folder: Path) -> None:
    """Print what was measured."""
    build(log, options.records, options.schema_bytes)
    subjects = set_configs(options.records)
    log.append([Entry(config_key(each), b'{"compatibilityLevel":"FULL"}') for each in subjects])
    end = log.end()
    plain, without_s = fold_log(log, folder / "plain", history=False)
    kept, with_s = fold_log(log, folder / "kept", history=True)
    used = [each.stat().bytes_used for each in (plain, kept)]
    without, with_it = (seconds / end * 1e6 for seconds in (without_s, with_s))
    print(f"fold in steps of 100: {without:.1f} µs CPU a record, {with_it:.1f} with history")
    print(f"store: {used[0] / end:.0f} bytes a record, {used[1] / end:.0f} with history")
    filler = HistoryFiller(log, plain)

    def fill() -> None:
        while not filler.step():
            pass

    print(f"filled afterwards: {cpu_of(fill) / end * 1e6:.1f} µs CPU a record, "
          f"{(plain.stat().bytes_used - used[0]) / end:.0f} bytes")  # fmt: skip
    with kept.view() as view:
        pages = cpu_of(lambda: [list(islice(walk(view, each), 100)) for each in subjects])
    print(f"a page of a subject's history: {pages / SUBJECTS * 1e6:.0f} µs CPU")
    past_reader = PastReader(log, kept, SnapshotRows(log, list), now_ms)
    for what, moment in (
        ("unchanged since", Moment(end - 1)),
        ("changed since", Moment(options.records - 1)),
    ):
        cost = cpu_of(
            lambda: [
                past_reader.reconstruct(moment, [packed_owner(each)], lambda: None)  # noqa: B023
                for each in subjects
            ]
        )
        print(f"rows of a subject that has {what}: {cost / SUBJECTS * 1e6:.0f} µs CPU")
    plain.close()
    kept.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--schema-bytes", type=int, default=400)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    log = EmbeddedLog(folder / "log")
    try:
        measure(log, options, folder)
    finally:
        log.close()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
