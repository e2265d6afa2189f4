"""Opening of a store and its log on Kafka, which may be unreachable or replaced by another log.

Without a store there is nothing to serve, so the node waits for the log. An existing store is served
immediately, even while its log is unreachable or another log has taken its name.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import nullcontext

from registry.config.loading import Settings
from registry.domain.log_format.lineage import ALL_RECORDS
from registry.log.contract import ForeignLog, Log, LogError, Unreachable
from registry.log.embedded.log import now_ms
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.open_topic import open_topic
from registry.log.kafka.topic import TopicMissing
from registry.node.replication.log_match import Known, LogMatcher
from registry.node.replication.reconnecting_log import ReconnectingLog
from registry.node.replication.staleness import StaleStore
from registry.observe.waiting import told
from registry.store.layout import META_LOG
from registry.store.lmdb import Store
from registry.store.open import Load, known_log, open_store, peek

from .progress import StartProgress

Loader = Callable[[Log], Load | None]
# Time that a node with a store waits for its log before it serves without it.
TRY_S = 5.0
# Share of a request's time for retrying an append; the rest is for delivering the error.
APPEND_PART = 0.8
_RETRY_S = 2.0
# Placeholder for the log's end when opening the store; LogMatcher compares the store with the real end.
_ANY_END = 1 << 62
_log = logging.getLogger(__name__)


def open_on_kafka(
    settings: Settings, starting: StartProgress, loader: Loader
) -> tuple[ReconnectingLog, Store]:
    """Open log and store; the log may still be disconnected. Raises the errors of the log and the store.

    ``starting`` receives the reason for waiting; ``loader`` returns the function that loads a snapshot.
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
        return _with_store(settings, loader, _waited_for(settings, starting))
    return _beside_a_store(settings, loader, known)


def _waited_for(settings: Settings, starting: StartProgress) -> KafkaLog:
    """Open the log, creating it if it is missing; retry until the brokers can be reached."""

    def tell(text: str) -> None:
        starting.waiting = text
        _log.warning("%s; there is no store yet, so nothing is served until then", text)

    while True:
        try:
            # Once a first attempt has failed, its error says more.
            with nullcontext() if starting.waiting else told(f"waiting for Kafka at {settings.kafka}", tell):
                log = _open_log(settings, make=True)
        except Unreachable as error:
            starting.waiting = f"waiting for the log: {error}"
            _log.error("%s; there is no store yet, so nothing is served until the log is available", error)
            time.sleep(_RETRY_S)
        else:
            starting.waiting = ""
            return log


def _beside_a_store(settings: Settings, loader: Loader, identity: str) -> tuple[ReconnectingLog, Store]:
    found = peek(settings.data / "store")
    try:
        with told(f"waiting for Kafka at {settings.kafka}, at most {TRY_S:g} s", _log.warning):
            log = _open_log(settings, make=False)
    except (Unreachable, ForeignLog) as error:
        _log.error("%s; serving from the store meanwhile", error)
        return _attached(settings, None, _opened(settings, identity), error)
    try:
        if found is not None:
            # An unreadable store (found is None) is set aside below, no matter which log it was built from.
            _matcher(settings, lambda: Known(identity, *found))(log)
    except StaleStore as error:
        return _with_store(settings, loader, log, str(error))
    except (Unreachable, ForeignLog) as error:
        log.close()
        _log.error("%s", error)
        return _attached(settings, None, _opened(settings, identity), error)
    except BaseException:
        log.close()
        raise
    return _with_store(settings, loader, log)


def _with_store(
    settings: Settings, loader: Loader, log: KafkaLog, unfit: str = ""
) -> tuple[ReconnectingLog, Store]:
    """Open the store for ``log`` and return both; rebuild the store if ``unfit`` gives a reason."""
    try:
        return _attached(settings, log, _opened(settings, log.identity, unfit, loader(log)))
    except BaseException:
        log.close()
        raise


def _opened(settings: Settings, identity: str, unfit: str = "", load: Load | None = None) -> Store:
    store, messages = open_store(
        settings.data / "store",
        identity,
        _ANY_END,
        map_bytes=settings.store_map_bytes,
        unfit=unfit,
        load=load,
    )
    for message in messages:
        _log.warning("%s", message)
    return store


def _attached(
    settings: Settings, log: KafkaLog | None, store: Store, error: LogError | None = None
) -> tuple[ReconnectingLog, Store]:
    # While the log is unreachable, what was found before the last stop is still known.
    if log is not None:
        store.set_mismatch(None)
    elif isinstance(error, ForeignLog):
        store.set_mismatch(error.mismatch)
    identity = store.meta(META_LOG).decode()
    matches = _matcher(settings, lambda: Known(identity, store.applied, store.at_end_ms(), store.lineage))
    attached = ReconnectingLog(
        lambda: _open_log(settings, make=False),
        matches,
        identity=identity,
        applied=store.applied,
        log=log,
        error=error,
    )
    return attached, store


def _matcher(settings: Settings, known: Callable[[], Known]) -> LogMatcher:
    return LogMatcher(known, margin_ms=int(settings.end_age_margin_s * 1000), now=now_ms)


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
