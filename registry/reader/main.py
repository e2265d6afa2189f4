"""A reader's process: it answers HTTP from the host's store, and passes writes to its node."""

from __future__ import annotations

import asyncio
import itertools
import logging
from contextlib import suppress
from pathlib import Path

import uvloop

from registry import VERSION
from registry.api.app import Gateway, create_app
from registry.api.asks import Asks
from registry.api.backend import ApiSettings
from registry.api.browsers import Cors, PageGuard, ResponseHeaders
from registry.api.node_queries import ADD_ASKS
from registry.audit.log import open_audit_log, recorder
from registry.base.config.settings import Settings
from registry.base.observe.metrics import BatchResults, Pulse, Tally
from registry.base.processes.child_process import REFUSED, Parent
from registry.base.processes.sockets import ListenError, listen_on_all
from registry.encoder import reader_cipher
from registry.feed.hub import Hub
from registry.host import stop_budget
from registry.host.public_server import (
    api_settings,
    configured_gate,
    console,
    limits,
    observing,
    public_server,
    searches,
    server_tls,
    start_listening,
)
from registry.host.wiring import hand_over, search_index, tracing, words
from registry.security.client_address import TrustedProxies
from registry.security.watched_file import FileError, PoliciesFile
from registry.store.reader import StoreReader

from .asks import AskCounter
from .backend import ReaderBackend
from .fast_path.dispatch import FastPaths
from .node_client import NodeClient

NODE_WAIT_S = 10.0  # Seconds that a call waits for a node that is down: a little longer than a restart takes.
NODE_FIRST_WAIT_S = 2.0  # Seconds that a starting reader waits for its node before it listens.
REPORT_EVERY_S = 1.0
ASKS_EVERY = 5  # Reports, after which the node gets the counts of who asks, if there are any.
_log = logging.getLogger(__name__)


def main(parent: Parent) -> int:
    """Run until the parent process sends stop or ends; return the exit code."""
    return uvloop.run(_run(parent))


async def _run(parent: Parent) -> int:
    stopping = asyncio.Event()
    parent.listen(stopping.set)
    try:
        reader = Reader(parent.settings, parent.endpoint)
    except ListenError as error:
        parent.report(refused=str(error))
        return REFUSED
    except FileError as error:
        # Not a refusal, which would end the whole registry: the files may be about to be replaced.
        _log.error("%s", error)
        return 1
    await reader.start()
    parent.report(listening=True)
    await stopping.wait()
    await reader.stop()
    return 0


class Reader:
    """The public server over the backend of a reader, with the files that the settings name."""

    def __init__(self, settings: Settings, endpoint: Path) -> None:
        """Open the files and bind the ports; ``endpoint`` is the node's socket.

        Must be called on the event loop. Raises :class:`FileError`, :class:`ListenError`.
        """
        self._tls = server_tls(settings)
        self._gate = configured_gate(settings)
        self._policies = PoliciesFile(settings.policies)
        self._audit = open_audit_log(settings)
        self._listeners = listen_on_all(settings.addresses, shared=True)
        self._asks, self._pulse = _ask_counter(settings), Pulse()
        self._observed = (
            observing(settings) if self._asks is None else observing(settings, self._asks.counts_for)
        )
        self._batch_results = BatchResults()
        self._tracing = tracing(settings, "reader")
        self._backend = _backend(settings, endpoint)
        api = api_settings(settings, VERSION, self._policies, self._gate)
        self._hub = Hub(self._backend, self._gate, api.listeners)
        app = self._app(settings, api)
        self._server = public_server(
            self._tracing.app(app), api, limits(settings),
            applied=self._backend.applied, observed=self._observed,
            # A bound method is called in less time than an object.
            fast_path=self._tracing.fast_path(self._fast_paths(app, settings, api).__call__),
        )  # fmt: skip
        self._background: list[asyncio.Task[None]] = []
        self._handing_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._handing_over.set_result(None)

    def _app(self, settings: Settings, api: ApiSettings) -> Gateway:
        return create_app(
            self._tracing.backend(self._backend), api,
            metrics=self._metrics, gate=self._gate, audit=recorder(self._audit), console=console(settings),
            hub=self._hub, searches=searches(settings), index=search_index(settings),
            on_results=self._batch_results.add,
        )  # fmt: skip

    def _fast_paths(self, app: Gateway, settings: Settings, api: ApiSettings) -> FastPaths:
        return FastPaths(
            self._backend.undoubted_view,
            app,
            seen=self._backend.newest_offset,
            cache_max_age_s=api.cache_max_age_s,
            newer=self._backend.newer_view,
            barrier=self._backend.barrier if api.cluster else None,
            local_reads=api.local_reads,
            registered=not settings.validate_fields,
            guard=PageGuard(api.allowed_hosts, api.cors_origins),
            gate=self._gate,
            extra=ResponseHeaders(api.response_headers),
            cors=Cors(api.cors_origins),
            proxies=TrustedProxies(api.trusted_proxies),
        )

    async def start(self) -> None:
        """Connect to the node, then listen: as soon as there are rows, or the node does not answer."""
        self._backend.node.start()
        with suppress(TimeoutError):
            # Until this reader knows the node's state, it refuses clients that other readers could serve.
            await asyncio.wait_for(self._backend.node_known.wait(), NODE_FIRST_WAIT_S)
        await start_listening(self._server, self._listeners, self._tls)
        self._pulse.start()
        watches = [self._report(), self._gate.watch(), self._policies.watch()]
        if self._tls is not None:
            watches.append(self._tls.watch())
        self._background = [asyncio.create_task(each) for each in watches]

    async def stop(self) -> None:
        """Answer the requests in progress, then hand over what they left to the audit log and the node."""
        self._hub.stop()
        await self._server.stop(stop_budget.REQUESTS_S)
        await asyncio.gather(
            hand_over(self._audit, self._tracing, stop_budget.READER_SINKS_S),
            self._hand_over_asks(stop_budget.READER_SINKS_S),
        )
        for task in self._background:
            task.cancel()
        self._backend.node.report(self._tally())
        self._backend.node.stop()
        if self._backend.log_end is not None:
            await self._backend.log_end.close()
        await asyncio.sleep(0)

    def _tally(self) -> Tally:
        return self._observed.tally(
            self._server.connections,
            self._pulse.lag_s(),
            0 if self._audit is None else self._audit.lost_count,
            listeners=self._hub.listeners,
            dropped=self._hub.dropped,
            results=self._batch_results.counts,
        )

    async def _metrics(self) -> bytes:
        return await self._backend.node.metrics(self._tally())

    async def _report(self) -> None:
        for second in itertools.count(1):
            await asyncio.sleep(REPORT_EVERY_S)
            self._backend.node.report(self._tally())
            if second % ASKS_EVERY == 0 and self._handing_over.done():
                # In a task: the node may take a while, and reports are not to wait for it.
                self._handing_over = asyncio.create_task(self._hand_over_asks())

    async def _send_asks(self, asks: Asks) -> None:
        await self._backend.ask(ADD_ASKS, asks)

    async def _hand_over_asks(self, limit_s: float | None = None) -> None:
        """Hand over the counts of who asks, if the node takes them in time."""
        if self._asks is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._asks.hand_over(self._send_asks), limit_s)


def _ask_counter(settings: Settings) -> AskCounter | None:
    """Return what counts who asks, ``None`` if that is off."""
    if not settings.asks_keep_days:
        return None
    return AskCounter(TrustedProxies(words(settings.trusted_proxies)).client)


def _backend(settings: Settings, endpoint: Path) -> ReaderBackend:
    """Return the backend over the store of the host, the node at ``endpoint`` and, in a cluster, the log."""
    cluster = bool(settings.kafka)
    store = StoreReader(settings.data / "store", settings.store_map_bytes)
    backend = ReaderBackend(store, cluster=cluster, cipher=reader_cipher(settings))
    if cluster:
        from registry.log.kafka.broker_connection import login_with  # noqa: PLC0415 (for clusters only)
        from registry.log.kafka.connection import Connections  # noqa: PLC0415
        from registry.log.kafka.security import Security  # noqa: PLC0415

        from .log_end_client import LogEndClient  # noqa: PLC0415

        connections = Connections(login_with(Security(**settings.security)))
        backend.log_end = LogEndClient(connections, settings.kafka, settings.topic, applied=store.lineage)
    backend.node = NodeClient(
        endpoint,
        timeout_s=settings.request_timeout_s,
        wait_s=NODE_WAIT_S,
        confirm_s=settings.confirm_timeout_s,
        calls_max=settings.queue_max,
        bytes_max=settings.queue_bytes_max,
        changed=backend.on_state,
        seen=backend.newest_offset,
    )
    return backend
