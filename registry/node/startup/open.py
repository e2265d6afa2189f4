"""Opening of log and store, and the decision to start from a snapshot.

:mod:`.snapshot_loader` loads the snapshot. It is imported only if needed, because most starts are not far
behind the log and need no snapshot.

It takes a while, mostly in other processes that check the files, so it starts before the rest of the node is
imported.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from registry.base.config.settings import Settings
from registry.base.observe.progress import announced_if_slow
from registry.domain.queries.sensitive_metadata import has_encoded
from registry.encoder import node_cipher
from registry.log.contract import Log, LogError
from registry.log.embedded.layout import is_absent
from registry.log.embedded.log import EmbeddedLog
from registry.store.examination import BegunExamination, peek
from registry.store.examination import begin as begin_examination
from registry.store.lmdb import Store
from registry.store.open import Load, known_log, open_store
from snapshots.format.files import BadLocation
from snapshots.format.location import Location
from snapshots.format.manifest import MANIFEST

from .progress import StartProgress

if TYPE_CHECKING:
    from registry.encoder.ciphers import NodeCipher

    from .snapshot_loader import LoadProcess


class LoadIfBehind:
    """Loading of a snapshot for one start, in a ``with`` block of the thread that opens log and store."""

    def __init__(self, settings: Settings, starting: StartProgress) -> None:
        """Start the loading process if there probably is a snapshot to load; there must be no thread yet.

        The process imports its libraries while the log is opened.
        """
        self._settings = settings
        self._starting = starting
        self._begun: LoadProcess | None = None
        if _probably_loads(settings):
            from .snapshot_loader import fork  # noqa: PLC0415 (see the module)

            with suppress(OSError):  # reported when the process is needed
                self._begun = fork()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._begun is not None:
            from .snapshot_loader import end  # noqa: PLC0415 (see the module)

            end(self._begun)

    def loader(self, log: Log) -> Load | None:
        """Return a function that loads a snapshot of ``log`` if worthwhile; ``None`` if that is disabled.

        The caller has found that ``log`` is the one of the store, if there is a store.
        """
        self._starting.log_suits()
        settings = self._settings
        if settings.snapshots_load == "off":
            return None

        def load(folder: Path, applied: int) -> bool:
            if log.end() - applied < max(1, settings.snapshots_load_ahead):
                return False
            self._starting.takes_long()
            from .snapshot_loader import load_in_child  # noqa: PLC0415 (see the module)

            begun, self._begun = self._begun, None
            return load_in_child(settings, log, folder, applied, self._starting, begun)

        return load


def _probably_loads(settings: Settings) -> bool:
    """Return true if there is no store and the snapshot location is not known to be empty."""
    if settings.snapshots_load == "off" or known_log(settings.data / "store") is not None:
        return False
    try:
        location = Location.normalize_uri(settings.snapshots_location)
        return not location.startswith("/") or any(Path(location).iterdir())
    except (BadLocation, OSError):
        return False


Opened = tuple[Log, Store]
Loader = Callable[[Log], Load | None]


class Opening(NamedTuple):
    """Log and store that are being opened, and the progress of that."""

    opened: Future[Opened]  # Raises errors of the log and the store, whose texts are for the user.
    starting: StartProgress


_log = logging.getLogger(__name__)


def begin(settings: Settings) -> Opening:
    """Start opening log and store in a thread."""
    starting = StartProgress()
    # Before this process imports what it needs for the log: it takes as long as that.
    begun = begin_examination(settings.data / "store")
    if settings.kafka:
        # The loading process needs it too.
        from . import open_kafka  # noqa: F401, PLC0415 (a standalone node needs no client for Kafka)
    load = LoadIfBehind(settings, starting)
    thread = ThreadPoolExecutor(1, "open")
    opened = thread.submit(_open, settings, starting, load, begun)
    thread.shutdown(wait=False)
    return Opening(opened, starting)


def _open(
    settings: Settings, starting: StartProgress, load: LoadIfBehind, begun: BegunExamination | None
) -> Opened:
    began = time.monotonic()
    with load, nullcontext() if begun is None else begun:
        if settings.kafka:
            log, store = _open_on_kafka(settings, starting, load.loader, begun)
        else:
            log, store = _open_embedded(settings, load.loader, begun)
        try:
            starting.cipher = open_encoder(settings, store)
        except BaseException:
            store.close()
            log.close()
            raise
    _log.info("log and store opened in %.2f s: log at %d, store at %d",
              time.monotonic() - began, log.end(), store.applied)  # fmt: skip
    return log, store


def _open_on_kafka(
    settings: Settings, starting: StartProgress, loader: Loader, begun: BegunExamination | None
) -> Opened:
    from .open_kafka import open_on_kafka  # noqa: PLC0415 (a standalone node needs no client for Kafka)

    return open_on_kafka(settings, starting, loader, begun)


def open_encoder(settings: Settings, store: Store) -> NodeCipher | None:
    """Open the keyset of sensitive metadata. Raises :class:`LogError` if the secret is wrong."""

    def encodes() -> bool:
        with store.view() as view:
            return has_encoded(view)

    cipher = node_cipher(settings, encodes)
    if cipher is not None:
        where = f"{settings.metadata_encoder_topic} at {settings.kafka}" if settings.kafka else settings.data
        with announced_if_slow(f"waiting for the keyset of sensitive metadata in {where}", _log.warning):
            cipher.start()
    return cipher


def _what_is_left(store_path: Path) -> str:
    found = peek(store_path)
    return "" if found is None else f"The store next to it holds the rows up to offset {found.applied}."


def _check_that_none_was_lost(data: Path) -> None:
    """Raise :class:`LogError` if there was a log once: an empty one would answer "not found" instead."""
    snapshots = sorted((data / "snapshots").glob(f"*/{MANIFEST}"))
    if snapshots:
        raise LogError(
            f"there is no log in {data / 'log'}, but {data / 'snapshots'} has snapshots of one, the newest "
            f"{snapshots[-1].parent.name}. To continue with it: registrar snapshot restore --data {data}. To "
            "start with an empty log, move the snapshots away"
        )


def _open_embedded(settings: Settings, loader: Loader, begun: BegunExamination | None) -> Opened:
    store_path = settings.data / "store"
    known = known_log(store_path)
    if known is not None and "/" in known:
        # The identity of a topic contains slashes (see KafkaLog), that of an embedded log does not.
        raise LogError(
            f"the store in {store_path} was built from the topic {known.split('/')[1]} of Kafka, but no "
            "brokers are named: give kafka = HOST:PORT, or another folder in the setting data"
        )
    if known is None and is_absent(settings.data / "log"):
        _check_that_none_was_lost(settings.data)
    log = EmbeddedLog(
        settings.data / "log",
        map_bytes=settings.log_map_bytes,
        record_bytes_max=settings.record_bytes_max,
        must_exist=known is not None,
        advice=lambda: _what_is_left(store_path),
    )
    try:
        if known is not None and known != log.identity:
            _log.warning("the store was built from another log than the existing one")
        store, messages = open_store(
            store_path, log.identity, log.end(), divergence=log.divergence,
            map_bytes=settings.store_map_bytes, load=loader(log), begun=begun,
        )  # fmt: skip
    except BaseException:
        log.close()
        raise
    for message in messages:
        _log.warning("%s", message)
    store.set_mismatch(None)  # This log is the truth, and the store was compared with it.
    return log, store
