"""Export of spans to a collector, as protobuf over HTTP, and whether the settings want it.

The setting ``traces`` and OpenTelemetry's environment variables decide. Its SDK also reads the collector,
sizes, intervals and sampling from these variables. Spans wait in a bounded queue for a thread of their own,
which drops the oldest if the collector does not keep up.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from registry import VERSION
from registry.base.observe.logs import Throttled

if TYPE_CHECKING:
    from .contract import Tracing

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_EXPORTER = "OTEL_TRACES_EXPORTER"
_PROTOCOL = "http/protobuf"
_PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
# Interval between two log lines about a collector, at least.
EVERY_S = 60.0
_log = logging.getLogger(__name__)


def is_wanted(setting: str, environment: Mapping[str, str]) -> bool:
    """Return true if traces are to be exported; ``setting``: ``auto``, ``otlp`` or ``off``."""
    disabled = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if setting == "off" or disabled or environment.get(_EXPORTER) == "none":
        return False
    return setting == "otlp" or _first(_ENDPOINTS, environment) is not None


def obstacle(environment: Mapping[str, str]) -> str:
    """Return why traces cannot be exported and what to do; empty if they can."""
    if not _is_installed():
        return (
            "exporting traces needs OpenTelemetry's packages: "
            "install the extra kafka-registrar[otel], see docs/install.md, or set traces = off"
        )
    exporter = environment.get(_EXPORTER) or "otlp"
    if exporter != "otlp":
        return f"{_EXPORTER} = {exporter} is not supported: set it to otlp or none"
    protocol = _first(_PROTOCOLS, environment)
    if protocol is not None and environment[protocol] != _PROTOCOL:
        return (
            f"{protocol} = {environment[protocol]} is not supported: "
            f"set it to {_PROTOCOL}, and the endpoint to the collector's port for it, usually 4318"
        )
    endpoint = _first(_ENDPOINTS, environment)
    if endpoint is not None and not environment[endpoint].startswith(("http://", "https://")):
        return f"{endpoint} = {environment[endpoint]} is not a URL: it must begin with http:// or https://"
    return ""


def _is_installed() -> bool:
    try:
        return all(find_spec(name) is not None for name in _PACKAGES)
    except ModuleNotFoundError:  # a package above one of them
        return False


def _first(names: tuple[str, ...], environment: Mapping[str, str]) -> str | None:
    """Return the first of the variables that is set; an empty one counts as not set."""
    return next((name for name in names if environment.get(name)), None)


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
    # An extra, and its import costs time.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

    from .otel import exported_by  # noqa: PLC0415 (as above)

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
