"""``registrar health``."""

from __future__ import annotations

import http.client
import ssl
from contextlib import closing

import click

from registry.base.config.addresses import ListenAddress
from registry.base.config.loading import Loaded, Settings
from registry.cli.exit_status import FAILED, OK, REFUSED, Failure
from registry.cli.setting_flags import with_settings
from registry.cli.verb import Verb

_TIMEOUT_S = 5.0
_DENIED = (401, 403)
_CHECKS = {
    "live": "/health/live",
    "started": "/health/started",
    "ready": "/health/ready",
    "ready-for-writes": "/health/ready?for=writes",
}
_EPILOG = """\
live: the process serves requests. started: the log has been read to its end once, or is unavailable and
the store serves reads. ready: the node should receive requests. ready-for-writes: the node can carry out
writes.

Exit status: 0 healthy, 1 unhealthy or unreachable, 2 invalid settings, or the check requires authentication.
"""


@click.command(cls=Verb, epilog=_EPILOG)
@click.option(
    "--check", type=click.Choice([*_CHECKS]), default="started", show_default=True, help="The question."
)
@with_settings("where", "tls", shown=("listen", "listeners"), refused=FAILED)
def health(loaded: Loaded, check: str) -> int:
    """Check the health of the local registry.

    The address is that of the settings "listen" or "listeners", read as "registrar serve" reads them, so a
    container's health check needs no configuration.
    """
    settings = loaded.settings
    address = _address(settings)
    try:
        status, body = _ask(settings, address, _CHECKS[check])
    except (OSError, http.client.HTTPException) as error:
        click.echo(f"{address} cannot be asked: {error}", err=True)
        return REFUSED
    if status in _DENIED and check != "live":
        raise Failure(f"{address} answers {status}: open_paths is off; ask with --check live")
    click.echo(body.strip(), err=status != http.client.OK)
    return OK if status == http.client.OK or (status in _DENIED and check == "live") else REFUSED


def _address(settings: Settings) -> ListenAddress:
    """Return the first plain address, which needs no certificate, or else the first one."""
    addresses = [each.local for each in settings.addresses]
    return next((each for each in addresses if each.scheme == "http"), addresses[0])


def _ask(settings: Settings, address: ListenAddress, path: str) -> tuple[int, str]:
    with closing(_connection(settings, address)) as connection:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode(errors="replace")


def _connection(settings: Settings, address: ListenAddress) -> http.client.HTTPConnection:
    if address.scheme == "http":
        return http.client.HTTPConnection(address.host, address.port, timeout=_TIMEOUT_S)
    context = ssl.create_default_context()
    # The certificate is that of the public name, and nothing secret is sent.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if settings.tls_client_auth == "required" and settings.tls_certificate:
        context.load_cert_chain(settings.tls_certificate, settings.tls_key or None, settings.tls_key_password)
    return http.client.HTTPSConnection(address.host, address.port, timeout=_TIMEOUT_S, context=context)
