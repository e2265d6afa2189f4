"""A node at work in its process."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from registry.child import REFUSED, Parent
from registry.config import Settings
from registry.log.contract import LogError
from registry.peers.host import Offer
from registry.store.layout import StoreError

from .early import QUICK_S, Early
from .endpoint import Endpoint
from .node import Node
from .offering import Alone, Attached, Ending
from .opening import Opening

if TYPE_CHECKING:
    from .serving import Serving

DECIDING_PART = 0.9
"""Of a request's time, for its command: so that the outcome is still told."""
STOP_SERVING_S = 3.0
"""How long requests under way may take when the process stops."""
GIVE_UP_S = 1.8
"""How long after it is told to stop a command may wait for the log: what is told then must still arrive."""
STOP_PEERS_S = 0.5
"""The same for what peers have asked: this node has resigned before, so that nothing new comes from them."""


async def run(parent: Parent, opening: Opening) -> int:
    """Run until the parent says stop or ends; the exit code."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    failure: list[str] = []
    refusal: list[str] = []

    def failed(reason: str) -> None:
        failure.append(reason)
        loop.call_soon_threadsafe(stopping.set)

    def refused(reason: str) -> None:
        refusal.append(reason)
        loop.call_soon_threadsafe(stopping.set)

    early: Early | None = None
    try:
        early = await _waited_for(parent, opening)
        node = Node(parent.settings, opening.opened.result(), failed=failed, refused=refused)
    except (LogError, StoreError) as error:
        parent.tell(refused=str(error))
        return REFUSED
    except OSError as error:
        place = error.filename or parent.settings.data
        parent.tell(refused=f"{place} cannot be used: {error.strerror or error}")
        return REFUSED

    node.starting = opening.starting
    ending = Ending()

    def heard(said: dict[str, Any]) -> None:
        node.restarts.update(said.get("restarts", {}))
        if said.get("resign"):
            loop.run_in_executor(None, node.resign)
            loop.call_later(GIVE_UP_S, ending.give_up)

    parent.listen(stopping.set, heard)
    peers, peer, serving = None, "", None if early is None else early.serving
    offer: Offer = Alone(node).offer
    if not node.alone:
        from .peering import PeeringError, join  # noqa: PLC0415 (for clusters only, as hypercorn below)

        try:
            peers, peer = await join(node, parent.settings)
        except PeeringError as error:
            await asyncio.to_thread(node.stop)
            parent.tell(refused=str(error))
            return REFUSED
        offer = Attached(node, peers.forwarding.offer).offer
    offer = ending.around(offer)
    endpoint = Endpoint(node, offer, confirm_timeout_s=parent.settings.confirm_timeout_s)
    await endpoint.start(parent.endpoint)
    if early is not None:
        early.hand_over(endpoint)
    try:
        if parent.settings.readers == 0:
            serving = serving or _serving(parent.settings)
            await _serve(serving, parent.settings, node, offer)
        node.when_started(lambda: parent.tell(ready=True))
        node.start(peer)
        parent.tell(listening=True)
        await stopping.wait()
    except OSError as error:
        parent.tell(refused=f"cannot listen on {parent.settings.listen}: {error.strerror or error}")
        return REFUSED
    finally:
        loop.call_later(GIVE_UP_S, ending.give_up)
        await asyncio.to_thread(node.resign)
        if serving is not None:
            await serving.stop(STOP_SERVING_S)
        await endpoint.drained(STOP_SERVING_S)
        endpoint.stop()
        if peers is not None:
            await peers.stop(STOP_PEERS_S)
        await asyncio.to_thread(node.stop)
    if refusal:
        parent.tell(refused=refusal[0])
        return REFUSED
    return 1 if failure else 0


async def _waited_for(parent: Parent, opening: Opening) -> Early | None:
    """Return when log and store are open; what answers meanwhile, if that takes long."""
    opened = asyncio.wrap_future(opening.opened)
    await asyncio.wait((opened,), timeout=QUICK_S)
    early = None
    if not opened.done():
        early = Early(parent.settings, opening.starting)
        with suppress(OSError):  # a port that cannot be had is told when the node needs it
            await early.start(parent.endpoint)
    await opened
    return early


async def _serve(serving: Serving, settings: Settings, node: Node, offer: Offer) -> None:
    from .backend import NodeBackend  # noqa: PLC0415 (as above)

    async def metrics() -> bytes:
        node.processes.report(0, serving.tally())
        return node.metrics()

    backend = NodeBackend(
        node,
        offer,
        timeout_s=settings.request_timeout_s * DECIDING_PART,
        confirm_timeout_s=settings.confirm_timeout_s,
    )
    await serving.over(backend, metrics=metrics, pool=node.aside)


def _serving(settings: Settings) -> Serving:
    from .serving import Serving  # noqa: PLC0415 (not worth its time and memory where readers serve)

    return Serving(settings)
