"""A reader's process."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from contextlib import suppress

import uvloop

from registry import VERSION
from registry.api.app import create_app
from registry.api.browsers import PageGuard
from registry.api.response_headers import ResponseHeaders
from registry.audit.log import open_audit_log, recorder
from registry.base.observe.metrics import Tally
from registry.base.observe.pulse import Pulse
from registry.base.processes.parent_channel import REFUSED, Parent, started_by_parent
from registry.base.processes.sockets import ListenError, listen_on_all
from registry.encoder.open import reader_cipher
from registry.feed.hub import Hub
from registry.host.public_server import public_server, start_listening
from registry.host.wiring import (
    api_settings,
    configured_gate,
    console,
    limits,
    observing,
    searches,
    server_tls,
    tracing,
)
from registry.security.policies_file import PoliciesFile
from registry.security.watched_file import FileError
from registry.store.reader import StoreReader

from .backend import ReaderBackend
from .fast_path.dispatch import FastPaths
from .node_client import NodeClient

STOP_SERVING_S = 2.5
STOP_AUDIT_S = 1.0
STOP_TRACES_S = 1.0
NODE_WAIT_S = 10.0  # Seconds that a call waits for a node that is down: a little longer than a restart takes.
NODE_FIRST_WAIT_S = 2.0  # Seconds that a starting reader waits for its node before it listens.
REPORT_EVERY_S = 1.0
_log = logging.getLogger(__name__)


def main() -> None:
    """Run until the parent process sends stop or ends."""
    parent = started_by_parent("reader")
    sys.exit(uvloop.run(_run(parent)))


async def _run(parent: Parent) -> int:
    settings = parent.settings
    stopping = asyncio.Event()
    parent.listen(stopping.set)
    try:
        tls, gate, policies = server_tls(settings), configured_gate(settings), PoliciesFile(settings.policies)
        audit = open_audit_log(settings)
        listeners = listen_on_all(settings.addresses, shared=True)
    except ListenError as error:
        parent.report(refused=str(error))
        return REFUSED
    except FileError as error:
        # Not a refusal, which would end the whole registry: the files may be about to be replaced.
        _log.error("%s", error)
        return 1
    cluster = bool(settings.kafka)
    store = StoreReader(settings.data / "store", settings.store_map_bytes)
    backend = ReaderBackend(store, cluster=cluster, cipher=reader_cipher(settings))
    if cluster:
        from registry.log.kafka.security import Security  # noqa: PLC0415 (a client for clusters only)

        from .log_end_client import LogEndClient  # noqa: PLC0415

        backend.log_end = LogEndClient(
            Security(**settings.security), settings.kafka, settings.topic, applied=store.lineage
        )
    backend.node = NodeClient(
        parent.endpoint,
        timeout_s=settings.request_timeout_s,
        wait_s=NODE_WAIT_S,
        confirm_s=settings.confirm_timeout_s,
        calls_max=settings.queue_max,
        bytes_max=settings.queue_bytes_max,
        changed=backend.changed,
        applied=backend.applied,
    )
    observed, pulse, traced = observing(settings), Pulse(), tracing(settings, "reader")

    def tally() -> Tally:
        lost = 0 if audit is None else audit.lost
        return observed.tally(
            server.connections, pulse.lag_s(), lost, listeners=hub.listeners, dropped=hub.dropped
        )

    async def metrics() -> bytes:
        return await backend.node.metrics(tally())

    api = api_settings(settings, VERSION, policies)
    hub = Hub(backend, gate, api.listeners)
    app = create_app(
        traced.backend(backend), api,
        metrics=metrics, gate=gate, audit=recorder(audit), console=console(settings), hub=hub,
        searches=searches(settings),
    )  # fmt: skip
    fast_paths = FastPaths(
        backend,
        cache_max_age_s=settings.cache_max_age_s,
        barrier=backend.barrier if cluster else None,
        local_reads=settings.reads == "local",
        registrations=not settings.validate_fields,
        guard=PageGuard(api.allowed_hosts, api.cors_origins),
        gate=gate,
        extra=ResponseHeaders(api.response_headers),
    )
    server = public_server(
        traced.app(app), api, limits(settings),
        applied=backend.applied, observed=observed, fast_path=traced.fast_path(fast_paths),
    )  # fmt: skip
    backend.node.start()
    with suppress(TimeoutError):
        # Until this reader knows the node's state, it refuses clients that other readers could serve.
        await asyncio.wait_for(backend.node_known.wait(), NODE_FIRST_WAIT_S)
    await start_listening(server, listeners, tls)
    parent.report(listening=True)
    pulse.start()
    loop = asyncio.get_running_loop()
    background = [
        loop.create_task(_report(backend.node, tally)),
        loop.create_task(gate.watch()),
        loop.create_task(policies.watch()),
    ]
    if tls is not None:
        background.append(loop.create_task(tls.watch()))
    await stopping.wait()
    hub.stop()
    await server.stop(STOP_SERVING_S)
    if audit is not None:
        await audit.close(STOP_AUDIT_S)
    await traced.close(STOP_TRACES_S)
    for task in background:
        task.cancel()
    backend.node.report(tally())
    backend.node.stop()
    if backend.log_end is not None:
        await backend.log_end.close()
    await asyncio.sleep(0)
    return 0


async def _report(node: NodeClient, tally: Callable[[], Tally]) -> None:
    while True:
        await asyncio.sleep(REPORT_EVERY_S)
        node.report(tally())


if __name__ == "__main__":
    main()
