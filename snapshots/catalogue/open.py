"""Opening the catalogue that the settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.config.settings import Settings

from .catalogue import Catalogue
from .embedded import EmbeddedCatalogue

if TYPE_CHECKING:
    from registry.log.kafka.log import KafkaLog

_APPEND_S = 5.0
_START_S = 5.0


def catalogue_topic(settings: Settings) -> str:
    """Return the name of the catalogue's topic."""
    return f"{settings.topic}_snapshots"


def open_catalogue(settings: Settings) -> Catalogue:
    """Return the log's catalogue, without reading, creating or connecting to anything yet."""
    if not settings.kafka:
        return EmbeddedCatalogue(settings.data / "catalogue")
    from .kafka import KafkaCatalogue  # noqa: PLC0415 (a node without Kafka needs no client)

    return KafkaCatalogue(lambda make: _open_topic(settings, make=make))


def _open_topic(settings: Settings, *, make: bool) -> KafkaLog:
    from registry.log.kafka.connection import Security  # noqa: PLC0415 (as above)
    from registry.log.kafka.log import KafkaLog  # noqa: PLC0415
    from registry.log.kafka.topic import TopicOptions  # noqa: PLC0415

    return KafkaLog(
        Security(**settings.security),
        settings.kafka,
        catalogue_topic(settings),
        transactional_id="",
        append_timeout_s=_APPEND_S,
        fencing=False,
        options=TopicOptions(settings.replication_factor, create=make),
        start_timeout_s=_START_S,
    )
