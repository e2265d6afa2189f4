"""Confluent's metadata encoder, as the settings describe it; none without a secret."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from registry.base.config.settings import Settings

from .keyset import KeysetFile, KeysetStore

if TYPE_CHECKING:
    from registry.domain.queries.sensitive_metadata import Cipher

    from .ciphers import NodeCipher


def keyset_store(settings: Settings) -> KeysetStore:
    """Return the storage of the keyset, without any I/O."""
    if not settings.kafka:
        return KeysetFile(settings.data)
    from registry.log.kafka.open_topic import open_unfenced_topic  # noqa: PLC0415 (not for a standalone node)

    from .keyset_topic import KeysetTopic  # noqa: PLC0415 (as above)

    topic = settings.metadata_encoder_topic
    return KeysetTopic(topic, lambda make: open_unfenced_topic(settings, topic, make=make))


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
    return NodeCipher(secrets, keyset_store(settings), KeysetFile(settings.data), has_encoded=has_encoded)
