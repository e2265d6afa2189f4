"""``registrar health`` and ``registrar status``."""

from __future__ import annotations

import http.client
import os
import ssl
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from registry.base.config.addresses import ListenAddress
from registry.base.config.loading import Loaded, Settings
from registry.cli.client.resources import ErrorAnswer, Node, RegistryError
from registry.cli.output import FAILED, OK, REFUSED, Failure, json_option, note, print_json, print_table
from registry.cli.registry_flags import report_errors, with_connection
from registry.cli.setting_flags import with_settings
from registry.cli.verb import Verb

if TYPE_CHECKING:
    from registry.cli.client.client import RegistryClient
    from registry.cli.client.connect import Connection


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
        status, body = _answer_of(settings, address, _CHECKS[check])
    except (OSError, http.client.HTTPException) as error:
        click.echo(f"{address} cannot be reached: {error}", err=True)
        return REFUSED
    if status in _DENIED and check != "live":
        raise Failure(f"{address} answers {status}: open_paths is off; ask with --check live")
    click.echo(body.strip(), err=status != http.client.OK)
    return OK if status == http.client.OK or (status in _DENIED and check == "live") else REFUSED


def _address(settings: Settings) -> ListenAddress:
    """Return the first plain address, which needs no certificate, or else the first one."""
    addresses = [each.local for each in settings.addresses]
    return next((each for each in addresses if each.scheme == "http"), addresses[0])


def _answer_of(settings: Settings, address: ListenAddress, path: str) -> tuple[int, str]:
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


_COLUMNS = ("node", "ready", "ready for writes", "role", "epoch", "applied", "lag", "digest")
_NUMBERS = ("epoch", "applied", "lag")
_DIGEST_SHOWN = 8
_ANSWERS = {True: "yes", False: "no", None: ""}
_STATUS = "Exit status: 0 healthy, 1 problems found, 2 no node answered, or none permits this."
_REFUSED = {401: "not authenticated", 403: "not permitted"}


@click.command("status", cls=Verb, epilog=_STATUS)
@json_option
@with_connection()
def status(connection: Connection, *, as_json: bool) -> int:
    """Show the state and problems of every node named by --url or REGISTRAR_URL."""
    with report_errors():
        nodes = [_ask(client) for client in connection.open_each(os.environ)]
    problems = _problems(nodes)
    if as_json:
        print_json({"nodes": nodes, "problems": problems})
    else:
        print_table(_COLUMNS, map(_row, nodes), _NUMBERS)
        for problem in problems:
            note(problem)
    if all(node["error"] for node in nodes):
        return FAILED
    return REFUSED if problems else OK


def _ask(client: RegistryClient) -> dict[str, Any]:
    """Return the state of one node; of another registry only if it answers."""
    unknown = dict.fromkeys(("ready_for_writes", "role", "epoch", "applied", "end", "digest", "primary"))
    lists = ("reasons", "reasons_for_writes", "peer_problems", "invalid_files")
    why: dict[str, list[str]] = {name: [] for name in lists}
    node: dict[str, Any] = {"url": client.url, "ready": False, **unknown, **why}
    node |= {"error": None, "httpStatus": None}
    try:
        with client:
            try:
                found = client.get("/node", Node)
            except ErrorAnswer as error:
                if not error.is_unknown_resource:
                    raise
                client.get("/mode")
                return {**node, "ready": True}
    except ErrorAnswer as error:
        return {**node, "error": str(error), "httpStatus": error.status}
    except RegistryError as error:
        return {**node, "error": str(error)}
    known = {name: found.get(name) for name in (*unknown, "ready")}
    return {**node, **known, **{name: found.get(name) or [] for name in why}}


def _problems(nodes: list[dict[str, Any]]) -> list[str]:
    found = [each["error"] for each in nodes if each["error"]]
    found += [text for each in nodes if not each["error"] for text in _not_ready(each)]
    found += [
        f"{each['url']}: {problem}"
        for each in nodes
        for problem in (*each["peer_problems"], *each["invalid_files"])
        if problem not in each["reasons_for_writes"]
    ]
    states = [each for each in nodes if each["digest"]]
    digests: dict[int, set[str]] = {}
    for each in states:
        digests.setdefault(each["applied"], set()).add(each["digest"])
    found += [
        f"nodes differ in their digests at offset {at}: compare them with registrar snapshot diff"
        for at, different in digests.items()
        if len(different) > 1
    ]
    if states and not any(each["primary"] or each["role"] == "primary" for each in states):
        found.append("no node knows a primary: writes wait until one is elected")
    return found


def _not_ready(node: dict[str, Any]) -> list[str]:
    if not node["ready"]:
        return [f"{node['url']} is not ready: {'; '.join(node['reasons']) or 'it gives no reason'}"]
    if node["ready_for_writes"] is False:
        return [f"{node['url']} is not ready for writes: {'; '.join(node['reasons_for_writes'])}"]
    return []


def _row(node: dict[str, Any]) -> tuple[object, ...]:
    ready, writes = _ANSWERS[node["ready"]], _ANSWERS[node["ready_for_writes"]]
    if node["error"]:
        answered = node["httpStatus"]
        ready = _REFUSED.get(answered, f"error {answered}") if answered else "no answer"
    if node["applied"] is None:
        return (node["url"], ready, writes, "", "", "", "", "")
    lag = node["end"] - node["applied"]
    digest = node["digest"][:_DIGEST_SHOWN]
    return (node["url"], ready, writes, node["role"], node["epoch"], node["applied"], lag, digest)
