"""Opening of a store and its log on Kafka, which may be unreachable or replaced by another log.

Without a store there is nothing to serve, so the node waits for the log. An existing store is served
immediately, even while its log is unreachable or another log has taken its name; unless it cannot be served
or was never complete, it may be the last copy of its rows, so it is kept as it is until its log is attached.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import nullcontext

from registry.base.config.settings import Settings
from registry.base.observe.progress import announced_if_slow
from registry.domain.log_format.lineage import ALL_RECORDS, NOTHING, too_long
from registry.log.contract import ForeignLog, Log, LogError, Unreachable
from registry.log.embedded.log import now_ms
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.open_topic import open_topic
from registry.log.kafka.topic import TopicMissing
from registry.node.replication.log_match import Known, LogMatcher
from registry.node.replication.read_barrier import StaleStore
from registry.node.replication.reconnecting_log import ReconnectingLog
from registry.store.examination import BegunExamination, StorePosition, peek
from registry.store.layout import META_FOLD, META_LOG
from registry.store.lmdb import Store
from registry.store.open import Load, NotServable, known_log, open_kept, open_store

from .progress import StartProgress

Loader = Callable[[Log], Load | None]
# Time that a node with a store waits for its log before it serves without it.
TRY_S = 5.0
# Share of a request's time for retrying an append; the rest is for delivering the error.
APPEND_PART = 0.8
_RETRY_S = 2.0
_log = logging.getLogger(__name__)


def open_on_kafka(
    settings: Settings, starting: StartProgress, loader: Loader, begun: BegunExamination | None
) -> tuple[ReconnectingLog, Store]:
    """Open log and store; the log may still be disconnected. Raises the errors of the log and the store.

    ``starting`` receives the reason for waiting; ``loader`` returns the function that loads a snapshot.
    ``begun``: the examination of the store.
    """
    if settings.fencing == "off":
        _log.warning(
            "fencing is off: a former primary can still write, so ids may be assigned twice and acknowledged "
            "writes overwritten"
        )
    if settings.kafka_security_protocol == "SASL_PLAINTEXT" and settings.kafka_sasl_mechanism == "PLAIN":
        _log.warning("kafka_security_protocol = SASL_PLAINTEXT sends the password in the clear")
    known = known_log(settings.data / "store")
    if known is None:
        return _with_store(settings, loader, _waited_for(settings, starting), begun)
    return _with_a_store_kept(settings, starting, loader, known, begun)


def _waited_for(settings: Settings, starting: StartProgress) -> KafkaLog:
    """Open the log, creating it if it is missing; retry until the brokers can be reached."""

    def announce(text: str) -> None:
        starting.waiting = text
        _log.warning("%s; there is no store yet, so nothing is served until then", text)

    while True:
        try:
            # Once a first attempt has failed, its error says more.
            with (
                nullcontext()
                if starting.waiting
                else announced_if_slow(f"waiting for Kafka at {settings.kafka}", announce)
            ):
                log = _open_log(settings, make=True)
        except Unreachable as error:
            starting.waiting = f"waiting for the log: {error}"
            _log.error("%s; there is no store yet, so nothing is served until the log is available", error)
            time.sleep(_RETRY_S)
        else:
            starting.waiting = ""
            return log


def _with_a_store_kept(
    settings: Settings,
    starting: StartProgress,
    loader: Loader,
    identity: str,
    begun: BegunExamination | None,
) -> tuple[ReconnectingLog, Store]:
    """Open the store's log; without it, serve the store, or wait for the log if that cannot be served."""
    path, kept = settings.data / "store", ""
    while True:
        try:
            log = _own_log(settings, identity, lambda: peek(path, begun))
        except (Unreachable, ForeignLog) as error:
            if not kept:
                try:
                    store = open_kept(path, map_bytes=settings.store_map_bytes, begun=begun)
                except NotServable as reason:
                    kept = f"{reason}. It is kept, and nothing is served until its log is attached"
                else:
                    _log.error("%s; serving from the store meanwhile", error)
                    return _attach(settings, None, store, error)
            if starting.waiting != (waiting := f"{kept}: {error}"):
                _log.error("%s", waiting)
            starting.waiting = waiting
            time.sleep(_RETRY_S)
        else:
            starting.waiting = ""
            return _with_store(settings, loader, log, begun)


def _own_log(settings: Settings, identity: str, position: Callable[[], StorePosition | None]) -> KafkaLog:
    """Open the log and check that the store can follow it or be rebuilt from it.

    ``position`` returns the store's, or ``None`` if it cannot be read. Raises :class:`Unreachable`, and
    :class:`ForeignLog` if it is not the store's.
    """
    with announced_if_slow(f"waiting for Kafka at {settings.kafka}, at most {TRY_S:g} s", _log.warning):
        log = _open_log(settings, make=False)
    # Of a store that cannot be read, only the identity of its log is known.
    try:
        known = Known(identity, *(position() or StorePosition(0, now_ms(), NOTHING)))
        _matcher(settings, lambda: known)(log)
    except StaleStore as error:
        _log.warning("%s", error)
    except BaseException:
        log.close()
        raise
    return log


def _with_store(
    settings: Settings, loader: Loader, log: KafkaLog, begun: BegunExamination | None
) -> tuple[ReconnectingLog, Store]:
    """Open the store for ``log``, to which it was compared, and return both."""

    def stale(at_end_ms: int) -> str:
        return too_long(at_end_ms, now_ms(), log.tombstone_retention_ms, _margin_ms(settings))

    try:
        store, messages = open_store(
            settings.data / "store", log.identity, log.end(), divergence=log.divergence, stale=stale,
            map_bytes=settings.store_map_bytes, load=loader(log), begun=begun,
        )  # fmt: skip
    except BaseException:
        log.close()
        raise
    for message in messages:
        _log.warning("%s", message)
    return _attach(settings, log, store)


def _attach(
    settings: Settings, log: KafkaLog | None, store: Store, error: LogError | None = None
) -> tuple[ReconnectingLog, Store]:
    # While the log is unreachable, what was found before the last stop is still known.
    if log is not None:
        store.set_mismatch(None)
    elif isinstance(error, ForeignLog):
        store.set_mismatch(error.mismatch)
    identity = store.meta(META_LOG).decode()

    def known_log() -> Known:
        # Rows of another fold version cannot be compared with what a record makes now.
        rows = None if store.read_only else store.view
        return Known(identity, store.applied, store.at_end_ms(), store.lineage, rows)

    matches = _matcher(settings, known_log)
    version = store.meta(META_FOLD).decode()

    def suits(found: Log) -> None:
        matches(found)
        if store.read_only:
            raise StaleStore(f"the log is there; rebuilding the store of fold version {version} from it")

    if store.read_only:
        _log.warning(
            "the store %s has rows of fold version %s: it is only read, and rebuilt once its log is attached",
            store.path, version,
        )  # fmt: skip
    attached = ReconnectingLog(
        lambda: _open_log(settings, make=False),
        suits,
        identity=identity,
        applied=store.applied,
        log=log,
        error=error,
    )
    return attached, store


def _matcher(settings: Settings, known: Callable[[], Known]) -> LogMatcher:
    return LogMatcher(known, margin_ms=_margin_ms(settings), now=now_ms)


def _margin_ms(settings: Settings) -> int:
    return int(settings.end_age_margin_s * 1000)


def _open_log(settings: Settings, *, make: bool) -> KafkaLog:
    """Open the topic. Raises :class:`ForeignLog` if there is none and ``make`` is false."""
    try:
        return open_topic(
            settings,
            make=make,
            append_timeout_s=max(1.0, settings.request_timeout_s * APPEND_PART),
            start_timeout_s=TRY_S,
            strict=make,  # a node with a store can serve that
        )
    except TopicMissing as error:
        raise ForeignLog(
            f"{error}, but the store was built from one that did; reads are answered from the store and "
            "writes refused. To recreate the topic with the store's state: registrar log reseed",
            common=ALL_RECORDS,
        ) from error
