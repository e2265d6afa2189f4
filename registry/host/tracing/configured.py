"""Decision if traces are exported, by the setting ``traces`` and OpenTelemetry's environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_EXPORTER = "OTEL_TRACES_EXPORTER"
_PROTOCOL = "http/protobuf"
_PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


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
