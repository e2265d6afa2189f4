"""Starting threads where their number may be limited, as in containers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)


def begun(name: str, run: Callable[[], object], purpose: str) -> threading.Thread | None:
    """Return a running daemon thread; log an error and return ``None`` if it cannot be started."""
    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        _log.error("cannot start a thread %s: %s", purpose, error)
        return None
    return thread
