"""Opening the catalogue and the location of snapshots that the settings name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from registry.base.config.settings import Settings
from registry.base.config.sources import current_secret
from registry.base.observe.progress import announced_if_slow
from snapshots.format.files import Files
from snapshots.format.location import Location
from snapshots.format.manifest import ManifestKeys

from .catalogue import Catalogue
from .embedded import EmbeddedCatalogue

_T = TypeVar("_T")


def manifest_keys(settings: Settings) -> ManifestKeys:
    """Return the keys as they are now: their files may have changed since the start."""
    return ManifestKeys(
        current_secret(settings.snapshots_key, settings.snapshots_key_file),
        current_secret(settings.snapshots_old_key, settings.snapshots_old_key_file),
    )


def open_location(settings: Settings) -> Location:
    """Return the location for a command, which says so if it does not answer at once; nothing is read yet.

    Raises :class:`snapshots.format.files.BadLocation`.
    """
    location = Location.parse(settings.snapshots_location, manifest_keys(settings))
    if location.is_remote:
        location.backing = _AnnouncedFiles(location.backing, f"waiting for the snapshots in {location}")
    return location


class _AnnouncedFiles:
    """Files whose requests are announced if they take long, until one has been answered."""

    def __init__(self, files: Files, text: str) -> None:
        self._files = files
        self._text = text
        self._answered = False

    def read(self, path: str, most: int) -> bytes:
        return self._request_announced(lambda: self._files.read(path, most))

    def read_range(self, path: str, begin: int, length: int) -> bytes:
        return self._request_announced(lambda: self._files.read_range(path, begin, length))

    def copy(self, path: str, new: str) -> bool:
        return self._request_announced(lambda: self._files.copy(path, new))

    def write(self, path: str, data: bytes) -> None:
        self._request_announced(lambda: self._files.write(path, data))

    def names(self, path: str, *, folders: bool) -> list[str]:
        return self._request_announced(lambda: self._files.names(path, folders=folders))

    def delete(self, path: str) -> None:
        self._request_announced(lambda: self._files.delete(path))

    def delete_folder(self, path: str) -> None:
        self._request_announced(lambda: self._files.delete_folder(path))

    def _request_announced(self, request: Callable[[], _T]) -> _T:
        if self._answered:
            return request()
        with announced_if_slow(self._text):
            answer = request()
        self._answered = True
        return answer


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
