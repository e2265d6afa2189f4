"""Conversion of settings into the options of components that do not know the settings."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from typing import TYPE_CHECKING

from registry.audit.log import AuditLog
from registry.base.config.settings import Settings
from registry.domain.queries.associations import ASSOCIATION_RULES
from registry.domain.queries.scope import Defaults
from registry.search.index import SearchIndex
from registry.security.setting_files import FileChecks, names_files
from registry.webhooks.destinations import Destinations

from .tracing.contract import NO_TRACING, Tracing
from .tracing.export import is_wanted, obstacle, open_tracing

if TYPE_CHECKING:
    from registry.security.tls.expiry import ExpiryGauges

_log = logging.getLogger(__name__)


def defaults(settings: Settings) -> Defaults:
    """Return the defaults for subjects and contexts without a config."""
    return Defaults(
        compatibility=settings.compatibility,
        validate_fields=settings.validate_fields,
        validate_new_schemas=settings.validate_new_schemas,
        mode_mutability=settings.mode_mutability,
        reject_empty_subject=settings.reject_empty_subject,
        strict_references=settings.strict_references,
        association_rules=ASSOCIATION_RULES[settings.confluent_version],
        deletion_guard=settings.deletion_guard,
        census_age_max_ms=int(settings.census_age_max_s * 1000),
    )


def destinations(settings: Settings) -> Destinations:
    """Return where webhooks may be sent."""
    return Destinations(words(settings.webhooks_allow), plain_http=settings.webhooks_http)


def certificate_gauges(settings: Settings) -> ExpiryGauges | None:
    """Return the gauges of certificates; ``None`` if no setting names any."""
    named = (
        *(settings.https, settings.peer_tls_certificate),
        *(settings.kafka_ssl_certificate_location, settings.kafka_ssl_ca_location),
        *(settings.zookeeper_tls_certificate, settings.zookeeper_tls_ca),
    )
    if not any(named):
        return None
    from registry.security.tls.expiry import ExpiryGauges  # noqa: PLC0415 (its library costs time and memory)

    return ExpiryGauges(settings)


def file_checks(settings: Settings) -> FileChecks | None:
    """Return the checks of the files that settings name; ``None`` if they name none."""
    return FileChecks(settings) if names_files(settings) else None


def search_index(settings: Settings, *, writable: bool = False) -> SearchIndex | None:
    """Return the search index of this host; ``None`` if it is off.

    One of a node is ``writable``; while it is off, the node removes it.
    """
    path = settings.data / "search"
    if settings.search:
        return SearchIndex(path, settings.store_map_bytes, writable=writable)
    if writable:
        shutil.rmtree(path, ignore_errors=True)
    return None


def tracing(settings: Settings, process: str) -> Tracing:
    """Return the tracing of this process, ``node`` or ``reader``.

    What prevents it is logged, because the parent has refused to start if traces are required.
    """
    # The parent has logged an obstacle.
    if not is_wanted(settings.traces, os.environ) or obstacle(os.environ):
        return NO_TRACING
    try:
        return open_tracing(process)
    except ValueError as error:
        _log.error("traces are not exported: %s; correct the variables that begin with OTEL_", error)
        return NO_TRACING


async def hand_over(audit: AuditLog | None, traced: Tracing, grace_s: float) -> None:
    """Write the audit entries and export the traces of a process that ends, for up to ``grace_s`` seconds."""
    closing = [traced.close(grace_s), *(() if audit is None else (audit.close(grace_s),))]
    await asyncio.gather(*closing)


def words(listed: str) -> tuple[str, ...]:
    """Return the words of a list with commas."""
    return tuple(each.strip() for each in listed.split(",") if each.strip())
