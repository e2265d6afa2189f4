"""Opening of topics, by the settings: the log's, and the small ones that need no fence."""

from __future__ import annotations

from registry.base.config.settings import Settings
from registry.base.observe.progress import announced_if_slow
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security
from registry.log.kafka.topic import TopicMissing, TopicOptions

from .producer_id import LEAST_S

_COMMAND_START_TIMEOUT_S = 30.0
_UNFENCED_TIMEOUT_S = 5.0


def open_topic(
    settings: Settings, *, make: bool, append_timeout_s: float, start_timeout_s: float, strict: bool = True
) -> KafkaLog:
    """Open the log in the topic and create a missing topic if ``make``.

    ``strict``: refuse a topic that may lose records; else it can be read, but not claimed.

    Raises :class:`.topic.TopicMissing` if the topic is missing, and otherwise as :class:`KafkaLog`.
    """
    return KafkaLog(
        Security(**settings.security),
        settings.kafka,
        settings.topic,
        transactional_id=settings.transactional_id,
        append_timeout_s=append_timeout_s,
        fencing=settings.fencing == "on",
        # The fence must outlast a failover.
        fence_least_s=max(LEAST_S, 4 * settings.session_timeout_s),
        options=TopicOptions(settings.replication_factor, settings.allow_delete_policy, make, strict),
        start_timeout_s=start_timeout_s,
    )


def open_unfenced_topic(
    settings: Settings, topic: str, *, make: bool, allow_delete_policy: bool = False
) -> KafkaLog:
    """Open a topic that several nodes may write at the same time; raises as :func:`open_topic`."""
    return KafkaLog(
        Security(**settings.security),
        settings.kafka,
        topic,
        transactional_id="",
        append_timeout_s=_UNFENCED_TIMEOUT_S,
        fencing=False,
        options=TopicOptions(settings.replication_factor, allow_delete_policy, create=make),
        start_timeout_s=_UNFENCED_TIMEOUT_S,
    )


def open_unfenced_topic_for_command(settings: Settings, topic: str, *, make: bool) -> KafkaLog:
    """Do the same for a command: if the brokers do not answer at once, this is printed."""
    with announced_if_slow(f"waiting for Kafka at {settings.kafka}, at most {_UNFENCED_TIMEOUT_S:g} s"):
        return open_unfenced_topic(settings, topic, make=make)


def open_topic_for_command(settings: Settings, *, make: bool) -> KafkaLog | None:
    """Open the log for a command; return ``None`` if the topic is missing and ``make`` is not set.

    If the brokers do not answer at once, this is printed. Raises :class:`registry.log.contract.LogError`.
    """
    try:
        with announced_if_slow(
            f"waiting for Kafka at {settings.kafka}, at most {_COMMAND_START_TIMEOUT_S:g} s"
        ):
            return open_topic(
                settings,
                make=make,
                append_timeout_s=settings.request_timeout_s,
                start_timeout_s=_COMMAND_START_TIMEOUT_S,
            )
    except TopicMissing:
        return None
