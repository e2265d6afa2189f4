"""A reader's process."""

from __future__ import annotations

import asyncio
import sys

import uvloop

from registry import VERSION
from registry.api.app import create_app
from registry.api.cross_site import PageGuard
from registry.api.response_headers import ResponseHeaders
from registry.encoder.open import reader_cipher
from registry.http1.server import Server
from registry.observe.observed import Observed
from registry.observe.pulse import Pulse
from registry.processes.parent_channel import REFUSED, Parent, started_by_parent
from registry.processes.sockets import listen
from registry.public_server import public_server
from registry.store.reader import StoreReader
from registry.wiring import api_settings, limits

from .backend import ReaderBackend
from .fast_path.dispatch import Quick
from .node_client import Link

STOP_SERVING_S = 2.5
NODE_WAIT_S = 10.0
"""How long a call waits for a node that is away: a little longer than starting one takes."""
NODE_FIRST_WAIT_S = 2.0
"""How long a reader that starts waits for its node before it serves without."""
REPORT_EVERY_S = 1.0


def main() -> None:
    """Run until the parent says stop or ends."""
    parent = started_by_parent("reader")
    sys.exit(uvloop.run(_run(parent)))


async def _run(parent: Parent) -> int:
    settings = parent.settings
    stopping = asyncio.Event()
    parent.listen(stopping.set)
    try:
        listener = listen(settings.host, settings.port, shared=True)
    except OSError as error:
        parent.tell(refused=f"cannot listen on {settings.listen}: {error.strerror or error}")
        return REFUSED
    cluster = bool(settings.kafka)
    store = StoreReader(settings.data / "store", settings.store_map_bytes)
    backend = ReaderBackend(store, cluster=cluster, cipher=reader_cipher(settings))
    if cluster:
        from registry.log.kafka.connection import Security  # noqa: PLC0415 (a client for clusters only)

        from .log_end_client import LogEnd  # noqa: PLC0415

        backend.log_end = LogEnd(
            Security(**settings.security), settings.kafka, settings.topic, applied=store.lineage
        )
    backend.link = Link(
        parent.endpoint,
        timeout_s=settings.request_timeout_s,
        wait_s=NODE_WAIT_S,
        confirm_s=settings.confirm_timeout_s,
        calls_max=settings.queue_max,
        bytes_max=settings.queue_bytes_max,
        changed=backend.changed,
        applied=backend.applied,
    )
    observed, pulse = Observed(access_log=settings.access_log), Pulse()

    async def metrics() -> bytes:
        return await backend.link.metrics(observed.tally(server.connections, pulse.lag_s()))

    of_api = api_settings(settings, VERSION)
    app = create_app(backend, of_api, metrics=metrics)
    quick = Quick(
        backend,
        cache_max_age_s=settings.cache_max_age_s,
        confirming=backend.confirming if cluster else None,
        local_reads=settings.reads == "local",
        repeats=not settings.validate_fields,
        guard=PageGuard(of_api.allowed_hosts, of_api.cors_origins),
        extra=ResponseHeaders(of_api.response_headers),
    )
    server = public_server(
        app, of_api, limits(settings), applied=backend.applied, observed=observed, quick=quick
    )
    backend.link.start()
    try:
        # Whoever connects before this reader knows how things stand would be refused for nothing, while other
        # readers could serve.
        await asyncio.wait_for(backend.told.wait(), NODE_FIRST_WAIT_S)
    except TimeoutError:
        backend.without_node()
    await server.start(listener)
    parent.tell(listening=True)
    pulse.start()
    reporting = asyncio.get_running_loop().create_task(_report(backend.link, observed, server, pulse))
    await stopping.wait()
    await server.stop(STOP_SERVING_S)
    reporting.cancel()
    backend.link.report(observed.tally(0))
    backend.link.stop()
    if backend.log_end is not None:
        await backend.log_end.close()
    await asyncio.sleep(0)
    return 0


async def _report(link: Link, observed: Observed, server: Server, pulse: Pulse) -> None:
    while True:
        await asyncio.sleep(REPORT_EVERY_S)
        link.report(observed.tally(server.connections, pulse.lag_s()))


if __name__ == "__main__":
    main()
