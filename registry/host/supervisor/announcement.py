"""Lines at the start: where the registry serves, and which variables it ignores."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from registry import VERSION
from registry.base.config.addresses import ListenAddress
from registry.base.config.settings import Settings
from registry.ui import files

_NAMES_MAX = 10

_log = logging.getLogger(__name__)


def announce(settings: Settings) -> None:
    """Say where the registry serves: as a banner for people, or as a log line in JSON."""
    if settings.log_format != "json":
        console = settings.console == "on" and files.is_complete()
        print(banner(settings, console=console), flush=True)  # noqa: T201
        return
    urls = [str(each.local) for each in settings.addresses]
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


def banner(settings: Settings, *, console: bool) -> str:
    """Return what is printed for people once clients can connect; ``console``: there is one to open."""
    urls = " and ".join(str(each.local) for each in settings.addresses)
    readers = "1 reader" if settings.readers == 1 else f"{settings.readers} readers"
    log = f"\n  log       topic {settings.topic} at {settings.kafka}" if settings.kafka else ""
    example = _example_address(settings)
    shown = f"\n  console   {example.local}/ui" if console else ""
    curl, url = " ".join(("curl", *_curl_options(settings, example))), example.local
    return f"""\
Registrar {VERSION} serves a schema registry (Confluent's REST API) on {urls}
  data      {settings.data.resolve()}{log}
  processes {readers} and the node; one signal (Ctrl-C) stops all{shown}

Register a first schema:
  {curl} -X POST -H 'Content-Type: application/vnd.schemaregistry.v1+json' \\
    -d '{{"schema": "\\"string\\""}}' {url}/subjects/first-value/versions
and fetch it:
  {curl} {url}/subjects/first-value/versions/latest"""


def _example_address(settings: Settings) -> ListenAddress:
    """Return the address for examples: with https if only a client certificate authenticates."""
    encrypted = [each for each in settings.addresses if each.scheme == "https"]
    return encrypted[0] if encrypted and _only_certificates(settings) else settings.main_address


def _only_certificates(settings: Settings) -> bool:
    return settings.authenticates and not (settings.users or settings.jwt_jwks)


def _curl_options(settings: Settings, address: ListenAddress) -> Iterator[str]:
    """Yield the options that curl needs at ``address``; words in capitals are for the user to replace."""
    if address.scheme == "https":
        yield "--cacert CA.pem"
        if settings.tls_client_auth == "required" or _only_certificates(settings):
            yield "--cert CLIENT.pem --key CLIENT.key"
    if settings.users:
        yield "-u USER"
    elif settings.jwt_jwks:
        yield "-H 'Authorization: Bearer TOKEN'"
