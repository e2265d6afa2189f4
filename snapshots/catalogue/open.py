"""Opening the catalogue that the settings name."""

from __future__ import annotations

from registry.base.config.settings import Settings

from .catalogue import Catalogue
from .embedded import EmbeddedCatalogue


def catalogue_topic(settings: Settings) -> str:
    """Return the name of the catalogue's topic."""
    return f"{settings.topic}_snapshots"


def open_catalogue(settings: Settings, *, command: bool = False) -> Catalogue:
    """Return the log's catalogue, without reading, creating or connecting to anything yet.

    For a ``command``, it is printed that Kafka is waited for.
    """
    if not settings.kafka:
        return EmbeddedCatalogue(settings.data / "catalogue")
    from registry.log.kafka import open_topic  # noqa: PLC0415 (not for a standalone node)

    from .kafka import KafkaCatalogue  # noqa: PLC0415 (as above)

    opened = open_topic.open_unfenced_topic_for_command if command else open_topic.open_unfenced_topic
    topic = catalogue_topic(settings)
    return KafkaCatalogue(lambda make: opened(settings, topic, make=make))
