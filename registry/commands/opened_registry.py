"""Sources of content that verbs are given: the URL of a running registry, or the name of a snapshot."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from registry.client.connect import Connection
from registry.client.errors import RegistryError
from registry.command_line.exit_status import Failure
from registry.promotion.streams import RegistryStreams


@contextmanager
def opened(connection: Connection, source: str) -> Iterator[RegistryStreams | str]:
    """Open the registry at ``source``, for a ``with`` block; yield the name of a snapshot as it is.

    Every error of the registry ends the verb with ``FAILED``: nothing can be said about what it holds.
    """
    if not source.startswith(("http://", "https://")):
        yield source
        return
    try:
        with connection.open(os.environ, source) as client:
            yield RegistryStreams(client)
    except RegistryError as error:
        raise Failure(str(error)) from None
