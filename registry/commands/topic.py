"""The topic that the settings name, for commands."""

from __future__ import annotations

from registry.log.kafka.log import KafkaLog
from registry.log.kafka.topic import NoTopic
from registry.node import topic
from registry.settings import Settings

_START_TIMEOUT_S = 30.0


def open_topic(settings: Settings, *, make: bool) -> KafkaLog | None:
    """The log in the topic; ``None`` where there is no such topic and none is to be made.

    Raises :class:`registry.log.contract.LogError`.
    """
    try:
        return topic.open_topic(
            settings,
            make=make,
            append_timeout_s=settings.request_timeout_s,
            start_timeout_s=_START_TIMEOUT_S,
        )
    except NoTopic:
        return None
