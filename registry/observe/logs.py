"""Log lines on standard error: for people, or one JSON object a line for machines."""

from __future__ import annotations

import logging
import re
import sys
import time

import orjson

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
# Libraries say what they do; only their warnings are ours to print. kazoo and aiokafka warn at each try to
# connect: who uses them says so once.
_LIBRARIES = {
    "asyncio": logging.WARNING,
    "httpx": logging.WARNING,
    "httpcore": logging.WARNING,
    "aiokafka": logging.ERROR,
    "kazoo": logging.ERROR,
}
ACCESS = "registry.access"
"""The logger that gets one line for each request, if that is wanted."""
# C0 and C1 controls and Unicode's line breaks: clients choose parts of log lines, and terminals obey these.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROLS_IN_TRACES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")  # all but tabs and line feeds
_CONTROLS_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029]")  # orjson escapes the others itself


def _escaped(control: re.Match[str]) -> str:
    named = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
    return named.get(control[0], f"\\u{ord(control[0]):04x}")


class ConsoleFormat(logging.Formatter):
    """Lines like ``2026-01-31 12:00:00.123 info    node      text``."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """The line, and after it the trace of an exception."""
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        text = f"{moment}.{record.msecs:03.0f} {record.levelname.lower():<7} {self._process:<9} "
        text += _CONTROLS.sub(_escaped, record.getMessage())
        if not record.exc_info:
            return text
        return f"{text}\n{_CONTROLS_IN_TRACES.sub(_escaped, self.formatException(record.exc_info))}"


class JsonFormat(logging.Formatter):
    """One JSON object a line: time, level, process, message, what the call gave, and an exception's trace."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
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
        return _CONTROLS_IN_JSON.sub(_escaped, orjson.dumps(line, default=str).decode())


def start_logging(level: str, style: str, process: str) -> None:
    """Send this process's log lines to standard error. ``process`` is how it is called in them."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormat(process) if style == "json" else ConsoleFormat(process))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(_LEVELS[level])
    for name, least in _LIBRARIES.items():
        logging.getLogger(name).setLevel(max(_LEVELS[level], least))


def log_request(method: str, target: str, status: int, seconds: float, size: int) -> None:
    """The access log's line for one request."""
    fields = {
        "method": method,
        "target": target,
        "status": status,
        "ms": round(seconds * 1000, 3),
        "bytes": size,
    }
    logging.getLogger(ACCESS).info(
        "%s %s %d %.3f ms %d bytes", method, target, status, seconds * 1000, size, extra={"fields": fields}
    )
