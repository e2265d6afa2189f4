"""Threads where the machine may have no more of them, as in a container that bounds processes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)


def begun(name: str, run: Callable[[], object], purpose: str) -> threading.Thread | None:
    """A daemon thread that runs; ``None``, and a line in the log, where there is none for the purpose."""
    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        _log.error("no thread %s: %s", purpose, error)
        return None
    return thread
