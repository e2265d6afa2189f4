"""The encoder that the settings describe; none without a secret."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from registry.config.settings import Settings

from .keyset_storage import KeysetFile, Place

if TYPE_CHECKING:
    from registry.domain.queries.sensitive_metadata import Cipher
    from registry.log.kafka.log import KafkaLog

    from .ciphers import NodeCipher

_APPEND_S = 5.0
_START_S = 5.0


def keyset_place(settings: Settings) -> Place:
    """Return the storage of the keyset, without any I/O."""
    if not settings.kafka:
        return KeysetFile(settings.data)
    from .keyset_topic import KeysetTopic  # noqa: PLC0415 (its client is not for a standalone node)

    return KeysetTopic(settings.metadata_encoder_topic, lambda make: _open_topic(settings, make=make))


def reader_cipher(settings: Settings) -> Cipher | None:
    """Return the cipher of a reader; ``None`` without a secret."""
    if not settings.metadata_encoder_secret:
        return None
    from .ciphers import ReaderCipher, Secrets  # noqa: PLC0415 (its library is not worth a start's time)

    secrets = Secrets(settings.metadata_encoder_secret, settings.metadata_encoder_old_secret)
    return ReaderCipher(secrets, KeysetFile(settings.data))


def node_cipher(settings: Settings, has_encoded: Callable[[], bool]) -> NodeCipher | None:
    """Return the cipher of a node; ``None`` without a secret."""
    if not settings.metadata_encoder_secret:
        return None
    from .ciphers import NodeCipher, Secrets  # noqa: PLC0415 (as above)

    secrets = Secrets(settings.metadata_encoder_secret, settings.metadata_encoder_old_secret)
    return NodeCipher(secrets, keyset_place(settings), KeysetFile(settings.data), has_encoded=has_encoded)


def _open_topic(settings: Settings, *, make: bool) -> KafkaLog:
    from registry.log.kafka.connection import Security  # noqa: PLC0415 (as above)
    from registry.log.kafka.log import KafkaLog  # noqa: PLC0415
    from registry.log.kafka.topic import TopicOptions  # noqa: PLC0415

    return KafkaLog(
        Security(**settings.security),
        settings.kafka,
        settings.metadata_encoder_topic,
        transactional_id="",
        append_timeout_s=_APPEND_S,
        fencing=False,
        options=TopicOptions(settings.replication_factor, create=make),
        start_timeout_s=_START_S,
    )
