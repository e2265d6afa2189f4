"""Opening log and store.

It takes a while, most of it in other processes that examine the files; so it is begun before anything that a
node needs besides is loaded.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from registry.config import Settings
from registry.log.contract import Log, LogError
from registry.log.embedded import EmbeddedLog
from registry.store.lmdb import Store
from registry.store.opening import known_log, open_store, peek

Opened = tuple[Log, Store]
_log = logging.getLogger(__name__)


def begin(settings: Settings) -> Future[Opened]:
    """Open both in a thread.

    The future raises the errors of the log and the store, whose texts are for the user.
    """
    thread = ThreadPoolExecutor(1, "open")
    opening = thread.submit(_open, settings)
    thread.shutdown(wait=False)
    return opening


def _open(settings: Settings) -> Opened:
    began = time.monotonic()
    log, store = _open_on_kafka(settings) if settings.kafka else _open_embedded(settings)
    _log.info("log and store opened in %.2f s: log at %d, store at %d",
              time.monotonic() - began, log.end(), store.applied)  # fmt: skip
    return log, store


def _open_on_kafka(settings: Settings) -> Opened:
    from .opening_kafka import open_on_kafka  # noqa: PLC0415 (its client is not for a node alone)

    return open_on_kafka(settings)


def _what_is_left(store_path: Path) -> str:
    found = peek(store_path)
    return "" if found is None else f"The store beside it holds the rows up to offset {found.applied}."


def _open_embedded(settings: Settings) -> Opened:
    store_path = settings.data / "store"
    known = known_log(store_path)
    if known is not None and "/" in known:
        # The identity of a topic, as in KafkaLog; an embedded log's has no slashes.
        raise LogError(
            f"the store in {store_path} was made from the topic {known.split('/')[1]} of Kafka, but no "
            "brokers are named: give kafka = HOST:PORT, or another folder in the setting data"
        )
    log = EmbeddedLog(
        settings.data / "log",
        map_bytes=settings.log_map_bytes,
        record_bytes_max=settings.record_bytes_max,
        must_exist=known is not None,
        advice=lambda: _what_is_left(store_path),
    )
    try:
        if known is not None and known != log.identity:
            _log.warning("the store was made from another log than the one that is there")
        store, messages = open_store(store_path, log.identity, log.end(), map_bytes=settings.store_map_bytes)
    except BaseException:
        log.close()
        raise
    for message in messages:
        _log.warning("%s", message)
    return log, store
