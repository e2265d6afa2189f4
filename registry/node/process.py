"""Life cycle of the node's process: opening, serving and stopping."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from registry.base.config.settings import Settings
from registry.base.processes.parent_channel import REFUSED, Parent
from registry.base.processes.sockets import ListenError
from registry.domain.pending_command import Submit
from registry.host.tracing.contract import Tracing
from registry.host.wiring import tracing
from registry.log.contract import LogError
from registry.security.watched_file import FileError
from registry.store.layout import StoreError

from .cluster_status import ClusterView
from .command_router import CommandRouter
from .governance import Governance
from .ipc_server import IpcServer
from .metrics import metrics
from .node import Node
from .node_service import NodeService
from .startup.open import Opened, Opening
from .startup.progress import Stopped
from .startup_endpoint import QUICK_S, StartupEndpoint, unless_ended
from .status import status

if TYPE_CHECKING:
    from .serving import Serving

# Share of a request's time that its command may use; the rest is for delivering the outcome.
DECIDING_PART = 0.9
# Time for requests in progress when the process stops.
STOP_SERVING_S = 3.0
# Time that commands may wait for the log after a stop is requested. Shorter than STOP_SERVING_S, so that the
# replies still reach the clients.
GIVE_UP_S = 1.8
# Time that a node without readers waits for the end of the log before it starts serving anyway.
FIRST_WAIT_S = 2.0
# Time for audit entries that wait for their destination when the process stops.
STOP_AUDIT_S = 0.5
# The same for traces.
STOP_TRACES_S = 0.5
# Time for opening log and store to end if the process is stopped meanwhile.
STOP_OPENING_S = 1.0
# Time for requests of peers in progress when the process stops. The node has resigned by then, so no new
# requests arrive.
STOP_PEERS_S = 0.5
_log = logging.getLogger(__name__)


async def run(parent: Parent, opening: Opening) -> int:
    """Run the node until the parent requests a stop or ends; return the exit code."""
    try:
        governance = Governance(parent.settings)
    except FileError as error:
        # Not a refusal, which would end the whole registry: the parent has checked the files at its start.
        _log.error("%s", error)
        await _given_up(opening, asyncio.wrap_future(opening.opened))
        return 1
    traced = tracing(parent.settings, "node")
    try:
        return await _run(parent, opening, governance, traced)
    finally:
        await governance.close(STOP_AUDIT_S)
        await traced.close(STOP_TRACES_S)


async def _run(parent: Parent, opening: Opening, governance: Governance, traced: Tracing) -> int:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    failure: list[str] = []

    def failed(reason: str) -> None:
        failure.append(reason)
        loop.call_soon_threadsafe(stopping.set)

    startup: StartupEndpoint | None = None
    messages_before: list[dict[str, Any]] = []

    def on_message_while_opening(message: dict[str, Any]) -> None:
        messages_before.append(message)
        if message.get("resign"):
            opening.starting.stop()

    parent.listen(stopping.set, on_message_while_opening)
    try:
        startup = await _waited_for(parent, opening, stopping, governance, traced)
        opened = opening.opened.result()
        cipher = opening.starting.cipher
        node = Node(
            parent.settings,
            opened,
            failed=failed,
            cipher=cipher,
            policies=governance.policies.current,
            tracing=traced,
        )
    except Stopped:
        await stopping.wait()
        return 0
    except (LogError, StoreError) as error:
        parent.report(refused=str(error))
        return REFUSED
    except OSError as error:
        place = error.filename or parent.settings.data
        parent.report(refused=f"{place} cannot be used: {error.strerror or error}")
        return REFUSED

    node.starting = opening.starting
    cluster = ClusterView(node)
    peers, peer, serving = None, "", None if startup is None else startup.serving
    if not node.standalone:
        from .peering import PeeringError, start_peer_endpoint  # noqa: PLC0415 (for clusters only)

        try:
            peers, peer = await start_peer_endpoint(node, cluster, parent.settings, traced)
        except PeeringError as error:
            await asyncio.to_thread(node.stop)
            parent.report(refused=str(error))
            return REFUSED
        except FileError as error:
            # Not a refusal, which would end the whole registry: the files may be about to be replaced.
            await asyncio.to_thread(node.stop)
            _log.error("%s", error)
            return 1
    router = CommandRouter(node, None if peers is None else peers.forwarding)
    submit = traced.decided(router.submit)

    giving_up: list[asyncio.Task[None]] = []

    def give_up() -> None:
        giving_up.append(loop.create_task(router.give_up()))

    def on_message(message: dict[str, Any]) -> None:
        node.restarts.update(message.get("restarts", {}))
        if message.get("resign"):
            loop.run_in_executor(None, node.resign)
            loop.call_later(GIVE_UP_S, give_up)

    for message in messages_before:
        on_message(message)
    parent.listen(stopping.set, on_message)

    def counted() -> bytes:
        return metrics(node, governance.audit_lost)

    service = NodeService(
        node, submit, status=partial(status, node), cluster=cluster.status, metrics=counted,
        confirm_timeout_s=parent.settings.confirm_timeout_s,
    )  # fmt: skip
    service.start()
    ipc = IpcServer(service) if startup is None else startup.ipc
    ipc.swap(service)
    await ipc.start(parent.endpoint)
    try:
        node.when_started(lambda: parent.report(ready=True))
        node.start(peer)
        if parent.settings.readers == 0:
            if serving is None:
                await _has_rows(node, stopping)
            serving = serving or _serving(parent.settings, governance, traced)
            await _serve(serving, parent.settings, node, submit, cluster, startup, counted)
        parent.report(listening=True)
        await stopping.wait()
    except ListenError as error:
        parent.report(refused=str(error))
        return REFUSED
    except FileError as error:
        # Not a refusal, which would end the whole registry: the files may be about to be replaced.
        _log.error("%s", error)
        return 1
    finally:
        loop.call_later(GIVE_UP_S, give_up)
        await asyncio.to_thread(node.resign)
        if serving is not None:
            await serving.stop(STOP_SERVING_S)
        await ipc.drained(STOP_SERVING_S)
        service.stop()
        ipc.stop()
        if peers is not None:
            await peers.stop(STOP_PEERS_S)
        await asyncio.to_thread(node.stop)
    return 1 if failure else 0


async def _waited_for(
    parent: Parent, opening: Opening, stopping: asyncio.Event, governance: Governance, traced: Tracing
) -> StartupEndpoint | None:
    """Wait until log and store are open; return the startup endpoint if that took long enough to need one.

    Raises the errors of opening them, and :class:`.progress.Stopped` if ``stopping`` is set first.
    """
    loop = asyncio.get_running_loop()
    opened, stopped = asyncio.wrap_future(opening.opened), loop.create_task(stopping.wait())
    long = asyncio.Event()
    opening.starting.when_long = lambda: unless_ended(loop, long.set)
    if opening.starting.long.is_set():
        long.set()
    waited = loop.create_task(long.wait())
    await asyncio.wait((opened, stopped, waited), timeout=QUICK_S, return_when=asyncio.FIRST_COMPLETED)
    waited.cancel()
    startup = None
    if not (opened.done() or stopped.done()):
        startup = StartupEndpoint(parent.settings, opening.starting, governance, traced)
        # What is wrong, such as a port in use, is reported when the node itself serves.
        with suppress(ListenError, FileError):
            await startup.start(parent.endpoint)
        await asyncio.wait((opened, stopped), return_when=asyncio.FIRST_COMPLETED)
    if stopped.done():
        await _given_up(opening, opened)
        raise Stopped
    stopped.cancel()
    await opened
    return startup


async def _given_up(opening: Opening, opened: asyncio.Future[Opened]) -> None:
    """Stop the opening of log and store as far as possible, and close them if they are open."""
    opening.starting.stop()
    await asyncio.wait((opened,), timeout=STOP_OPENING_S)
    if opened.done() and opened.exception() is None:
        for each in reversed(opened.result()):
            each.close()


async def _has_rows(node: Node, stopping: asyncio.Event) -> None:
    """Wait until the log was read, a stop is requested, or :data:`FIRST_WAIT_S` has passed."""
    ended = asyncio.get_running_loop().create_task(stopping.wait())
    node.when_started(lambda: _cancel(ended))
    await asyncio.wait((ended,), timeout=FIRST_WAIT_S)
    ended.cancel()


def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()


async def _serve(
    serving: Serving,
    settings: Settings,
    node: Node,
    submit: Submit,
    cluster: ClusterView,
    startup: StartupEndpoint | None,
    metrics: Callable[[], bytes],
) -> None:
    from .backend import NodeBackend  # noqa: PLC0415 (not needed where readers serve)

    async def counted() -> bytes:
        node.processes.report(0, serving.tally())
        return metrics()

    backend = NodeBackend(
        node,
        submit,
        cluster,
        timeout_s=settings.request_timeout_s * DECIDING_PART,
        confirm_timeout_s=settings.confirm_timeout_s,
    )
    await serving.over(backend, metrics=counted, pool=node.pool)
    if startup is not None and startup.backend is not None:
        startup.backend.swap(backend)


def _serving(settings: Settings, governance: Governance, traced: Tracing) -> Serving:
    from .serving import Serving  # noqa: PLC0415 (costs time and memory, not needed where readers serve)

    return Serving(settings, governance.policies, governance.audit, traced)
