"""The threads of a node; if one of them fails, the node has to end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable

from registry.log.contract import LogError
from registry.store.layout import StoreError

_log = logging.getLogger(__name__)


class Threads:
    """Threads by name. ``failed`` is called, by the thread itself, with the reason why one has failed."""

    def __init__(self, failed: Callable[[str], None]) -> None:
        self._failed = failed
        self._threads: list[threading.Thread] = []

    def start(self, name: str, run: Callable[[], None]) -> None:
        """Start a thread that runs ``run``; it does not keep the process from ending."""
        thread = threading.Thread(target=self._run_guarded, args=(name, run), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def join(self, names: Iterable[str], timeout_s: float) -> None:
        """Wait until the named threads have ended, for at most ``timeout_s`` in total."""
        until = time.monotonic() + timeout_s
        for thread in self._threads:
            if thread.name in names:
                thread.join(max(0.0, until - time.monotonic()))

    def _run_guarded(self, name: str, run: Callable[[], None]) -> None:
        try:
            run()
        except (LogError, StoreError) as error:
            # Known to happen: the next start deals with it.
            _log.error("%s; the node starts again", error)
            self._failed(str(error))
        except Exception as error:
            _log.exception("the thread %s failed", name)
            self._failed(str(error) or repr(error))
