"""Export of spans to a collector, as protobuf over HTTP.

Spans wait in a bounded queue for a thread of their own, which drops the oldest if the collector does not keep
up. Sizes, intervals, sampling and the collector are set by OpenTelemetry's environment variables, which its
SDK reads.
"""

from __future__ import annotations

import logging
import os
import socket

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from registry import VERSION
from registry.base.observe.logs import Throttled

from .contract import Tracing
from .otel import exported_by

# Interval between two log lines about a collector, at least.
EVERY_S = 60.0
_log = logging.getLogger(__name__)


class _Problems(logging.Handler):
    """Passes on what OpenTelemetry logs, but not for each batch of spans."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._throttled = Throttled(_log, every_s=EVERY_S)

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record's message."""
        self._throttled.error("traces may be lost, requests are served: %s", record.getMessage())


def _take_over(name: str, handler: logging.Handler) -> None:
    logger = logging.getLogger(name)
    logger.handlers[:], logger.propagate = [handler], False


def open_tracing(process: str) -> Tracing:
    """Return tracing for this process, ``node`` or ``reader``. Raises :class:`ValueError`."""
    _take_over("opentelemetry", _Problems())
    # What it says of clients' headers is no problem here, and must not hide those with the collector.
    _take_over("opentelemetry.trace", logging.NullHandler())
    host, pid = socket.gethostname(), os.getpid()
    return exported_by(
        OTLPSpanExporter(),
        {
            "service.version": VERSION,
            "service.instance.id": f"{host}/{process}/{pid}",
            "host.name": host,
            "process.pid": pid,
            "registrar.process": process,
        },
    )
