"""``registrar doctor``: what is wrong with the surroundings of a node, or with running nodes."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from registry.base.config.loading import Loaded
from registry.cli.output import FAILED, OK, REFUSED, json_option, print_json, print_styled
from registry.cli.registry_flags import report_errors, with_connection
from registry.cli.setting_flags import ALL_GROUPS, with_settings
from registry.cli.verb import Verb

if TYPE_CHECKING:
    from registry.base.config.settings import Settings
    from registry.cli.client.connect import Connection
    from registry.cli.doctor import Finding

_STYLES = {"error": "bold red", "warning": "yellow", "unknown": "magenta", "fine": "green"}
_SHOWN = ("data", "kafka", "topic")


@click.command(
    "doctor",
    cls=Verb,
    epilog="Exit status: 0 healthy, 1 problems found, 2 something could not be examined.",
)
@click.argument("urls", default="", metavar="[URL,URL…]")
@json_option
@with_settings(*ALL_GROUPS, shown=_SHOWN, refused=FAILED)
@with_connection(url=False)
def doctor(connection: Connection, loaded: Loaded, *, urls: str, as_json: bool) -> int:
    """Diagnose the dependencies of a node, or running nodes.

    Without URL, it examines this host and Kafka by the settings; give the same flags and --config as for
    "registrar serve". With the URLs of all nodes of a cluster, it examines the nodes. Nothing is changed.
    """
    from registry.cli.doctor import Severity, sorted_findings, verdict  # noqa: PLC0415 - the help needs none

    if urls:
        from .doctor_servers import examine  # noqa: PLC0415 - as above

        with report_errors():
            found = list(examine(connection._replace(url=urls), os.environ))
    else:
        with _quiet("aiokafka", "kazoo"):
            found = asyncio.run(_examine_dependencies(loaded.settings))
    found, worst = sorted_findings(found), verdict(found)
    if as_json:
        print_json({"verdict": worst, "findings": [each._asdict() for each in found]})
    else:
        _print(found)
    return {Severity.FINE: OK, Severity.UNKNOWN: FAILED}.get(worst, REFUSED)


@contextmanager
def _quiet(*libraries: str) -> Iterator[None]:
    """Log nothing of these libraries during the block: their errors become findings."""
    levels = {name: logging.getLogger(name).level for name in libraries}
    for name in levels:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


async def _examine_dependencies(settings: Settings) -> list[Finding]:
    from registry.cli.doctor.host import examine_host  # noqa: PLC0415 - as above

    found = list(examine_host(settings))
    if settings.kafka:
        from registry.cli.doctor.brokers import examine_kafka  # noqa: PLC0415 - as above

        found += await _all(examine_kafka(settings))
    if settings.kafka and settings.election == "zookeeper":
        from registry.cli.doctor.brokers import examine_zookeeper  # noqa: PLC0415 - as above

        found += await _all(examine_zookeeper(settings))
    return found


async def _all(findings: AsyncIterator[Finding]) -> list[Finding]:
    return [each async for each in findings]


def _print(findings: list[Finding]) -> None:
    for severity, about, text, advice in findings:
        print_styled(f"{severity:8} {about}: {text}", _STYLES[severity])
        if advice:
            print_styled(f"         → {advice}", "default")
