"""Sources of content that verbs are given: the URL of a running registry, or the name of a snapshot."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from registry.cli.client.addresses import PROFILE
from registry.cli.client.connect import Connection
from registry.cli.client.errors import RegistryError
from registry.cli.exit_status import Failure
from registry.cli.promotion.streams import RegistryStreams


@contextmanager
def opened(connection: Connection, source: str, side: str = "") -> Iterator[RegistryStreams | str]:
    """Open the registry at ``source``, for a ``with`` block; yield the name of a snapshot as it is.

    ``side``: :data:`registry.cli.client.addresses.FROM` or ``TO`` if the command may name two registries.
    Every error of the registry ends the verb with ``FAILED``: nothing can be said about what it holds.
    """
    if not is_url(source):
        yield source
        return
    try:
        with connection.open(os.environ, source, side) as client:
            yield RegistryStreams(client)
    except RegistryError as error:
        raise Failure(str(error)) from None


def is_url(source: str) -> bool:
    """Return true if a source is a running registry, by its URL or as a profile."""
    return source.lower().startswith(("http://", "https://", PROFILE))
