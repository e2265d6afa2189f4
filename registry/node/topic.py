"""The topic that the settings name."""

from __future__ import annotations

from registry.config import Settings
from registry.log.kafka.connection import Security
from registry.log.kafka.expiration import LEAST_S
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.topic import Wanted


def open_topic(
    settings: Settings, *, make: bool, append_timeout_s: float, start_timeout_s: float
) -> KafkaLog:
    """The log in it; a missing topic is made if ``make``, else :class:`registry.log.kafka.topic.NoTopic`.

    Raises as :class:`KafkaLog`.
    """
    return KafkaLog(
        Security(**settings.security),
        settings.kafka,
        settings.topic,
        transactional_id=settings.transactional_id,
        append_timeout_s=append_timeout_s,
        fencing=settings.fencing == "on",
        # The fence must outlast a hand-over.
        fence_least_s=max(LEAST_S, 4 * settings.session_timeout_s),
        wanted=Wanted(settings.replication_factor, settings.allow_delete_policy, make),
        start_timeout_s=start_timeout_s,
    )
