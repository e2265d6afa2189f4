"""The lines with which a registry says that it serves, and what it does not heed."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from registry import VERSION
from registry.config.addresses import ListenAddress
from registry.config.loading import Settings

# Addresses by which this machine reaches listeners on all addresses.
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (recognised, not listened on)
_NAMES_MAX = 10

_log = logging.getLogger(__name__)


def announce(settings: Settings) -> None:
    """Say where the registry serves: as a banner for people, or as a log line in JSON."""
    if settings.log_format != "json":
        print(_banner(settings), flush=True)  # noqa: T201
        return
    urls = [_reached(each) for each in settings.addresses]
    fields = {"version": VERSION, "urls": urls, "data": str(settings.data.resolve())}
    if settings.kafka:
        fields |= {"topic": settings.topic, "kafka": settings.kafka}
    _log.info("Registrar %s serves on %s", VERSION, " and ".join(urls), extra={"fields": fields})


def log_ignored(variables: Sequence[str]) -> None:
    """Name the environment variables that look like settings and are none, once."""
    if variables:
        rest = len(variables) - _NAMES_MAX
        more = f" and {rest} more" if rest > 0 else ""
        shown = ", ".join(variables[:_NAMES_MAX])
        _log.info("ignored environment variables, because no setting has such a name: %s%s", shown, more)


def _reached(address: ListenAddress) -> str:
    return str(address._replace(host=_LOOPBACK.get(address.host, address.host)))


def _banner(settings: Settings) -> str:
    urls = [_reached(each) for each in settings.addresses]
    url = _reached(settings.main_address)
    readers = "1 reader" if settings.readers == 1 else f"{settings.readers} readers"
    processes = f"{readers} and the node" if settings.readers else "the node alone"
    log = f"\n  log       topic {settings.topic} at {settings.kafka}" if settings.kafka else ""
    return f"""\
Registrar {VERSION} serves a schema registry (Confluent's REST API) on {" and ".join(urls)}
  data      {settings.data.resolve()}{log}
  processes {processes}; one signal (Ctrl-C) stops all

Register a first schema:
  curl -X POST -H 'Content-Type: application/vnd.schemaregistry.v1+json' \\
    -d '{{"schema": "\\"string\\""}}' {url}/subjects/first-value/versions
and fetch it:
  curl {url}/subjects/first-value/versions/latest"""
