"""Log lines on standard error, as text for people or a JSON object per line for machines."""

from __future__ import annotations

import logging
import math
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable

import orjson

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
# Only warnings of libraries are printed; those of kazoo and aiokafka repeat with every attempt to connect,
# which their users here log once.
_LIBRARIES = {
    "asyncio": logging.WARNING,
    "httpx": logging.WARNING,
    "httpcore": logging.WARNING,
    "aiokafka": logging.ERROR,
    "kazoo": logging.ERROR,
}
# The logger of the access log.
ACCESS = "registry.access"
# C0 and C1 controls and Unicode line breaks: clients control parts of log lines, and terminals obey these.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROLS_IN_TRACES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")  # all but tabs and line feeds
_CONTROLS_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029]")  # orjson escapes the others
# Interval between two lines, at least.
EVERY_S = 1.0


def _escape(control: re.Match[str]) -> str:
    named = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
    return named.get(control[0], f"\\u{ord(control[0]):04x}")


class ConsoleFormat(logging.Formatter):
    """Lines like ``2026-01-31 12:00:00.123 info    node      text``."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, followed by an exception's traceback."""
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        text = f"{moment}.{record.msecs:03.0f} {record.levelname.lower():<7} {self._process:<9} "
        text += _CONTROLS.sub(_escape, record.getMessage())
        if not record.exc_info:
            return text
        return f"{text}\n{_CONTROLS_IN_TRACES.sub(_escape, self.formatException(record.exc_info))}"


class JsonFormat(logging.Formatter):
    """Lines of one JSON object: time, level, process, message, the call's fields, and a traceback."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "ts": f"{moment}.{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "process": self._process,
            "pid": record.process,
            "message": record.getMessage().encode(errors="replace").decode(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _CONTROLS_IN_JSON.sub(_escape, orjson.dumps(line, default=str).decode())


def start_logging(level: str, style: str, process: str) -> None:
    """Send this process' log lines to standard error; ``process`` is its name in them."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormat(process) if style == "json" else ConsoleFormat(process))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(_LEVELS[level])
    for name, least in _LIBRARIES.items():
        logging.getLogger(name).setLevel(max(_LEVELS[level], least))


def log_request(
    method: str,
    target: str,
    status: int,
    seconds: float,
    size: int,
    *,
    address: str,
    principal: str,
    request_id: str,
) -> None:
    """Write the access log's line for one request; the address, the principal and the id may be empty."""
    fields = {
        "method": method,
        "target": target,
        "status": status,
        "ms": round(seconds * 1000, 3),
        "bytes": size,
        "address": address,
        "principal": principal,
        "request_id": request_id,
    }
    logging.getLogger(ACCESS).info(
        "%s %s %d %.3f ms %d bytes, from %s, principal %s, id %s",
        method, target, status, seconds * 1000, size, address or "-", principal or "-", request_id or "-",
        extra={"fields": fields},
    )  # fmt: skip


class Throttled:
    """Passes one line of a kind every ``every_s`` seconds to ``logger``, with the number skipped before it.

    Lines are of one kind if their text is the same before values are put in. Any thread may call. ``clock``
    is monotonic, in seconds.
    """

    def __init__(
        self,
        logger: logging.Logger,
        clock: Callable[[], float] = time.monotonic,
        *,
        every_s: float = EVERY_S,
    ) -> None:
        self._logger = logger
        self._clock = clock
        self._every_s = every_s
        self._lock = threading.Lock()
        # By text.
        self._next: dict[str, float] = {}
        self._left_out = Counter[str]()

    def error(self, text: str, *given: object) -> None:
        """Log ``text % given`` unless a line of its kind was logged less than ``every_s`` ago."""
        self._log(logging.ERROR, text, *given)

    def warning(self, text: str, *given: object) -> None:
        """Do the same at the level of warnings, for what any client can cause."""
        self._log(logging.WARNING, text, *given)

    def _log(self, level: int, text: str, *given: object) -> None:
        with self._lock:
            now = self._clock()
            if now < self._next.get(text, -math.inf):
                self._left_out[text] += 1
                return
            left_out = self._left_out.pop(text, 0)
            self._next[text] = now + self._every_s
        if left_out:
            text, given = f"{text} (%d more such failures since the last line)", (*given, left_out)
        self._logger.log(level, text, *given)
