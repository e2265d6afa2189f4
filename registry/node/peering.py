"""Set-up of a node's peer endpoint from its settings."""

from __future__ import annotations

import logging
from functools import partial

from registry.base.config.addresses import ANY_HOST
from registry.base.config.settings import PEER_SECRET, Settings
from registry.base.processes.sockets import ListenError, listen
from registry.domain.admission import Room
from registry.forwarding.authentication import Security
from registry.forwarding.node_port import ASKS, AUDIT, ENDED_SESSIONS
from registry.forwarding.peers import Peers
from registry.host.tracing.contract import Tracing
from registry.security.authentication.sessions import EndedSessions, folder_of_ended
from registry.security.watched_file import FileError, WatchedFile

from .ended_sessions import SharedEnds
from .node import Node
from .status import ClusterView

_log = logging.getLogger(__name__)


async def start_peer_endpoint(
    node: Node, cluster: ClusterView, settings: Settings, tracing: Tracing
) -> tuple[Peers, str]:
    """Serve the peer endpoint; return the peers and the ``HOST:PORT`` at which other nodes reach it.

    Raises :class:`ListenError`, :class:`FileError`.
    """
    host, port = settings.peer_address
    security = Security(
        settings.peer_secret,
        settings.peer_tls_certificate,
        settings.peer_tls_key,
        settings.peer_tls_ca,
    )
    ends = SharedEnds(EndedSessions(folder_of_ended(settings.data)))
    try:
        peers = Peers(
            node,
            security,
            node=node.identity.node,
            url=node.identity.url,
            body_bytes_max=settings.body_bytes_max,
            room=Room(settings.queue_max, settings.queue_bytes_max),
            report=cluster.pack,
            address=lambda: node.identity.peer,
            access_log=settings.access_log,
            tracing=tracing,
            answers={ASKS: node.asks.answer_peer, ENDED_SESSIONS: ends.take, AUDIT: node.audit.answer_peer},
        )
        listener = listen(host, port, shared=False)
    except OSError as error:
        why = error.strerror or error
        raise ListenError(f"cannot serve peers at {host}:{port}: {why}; see peer_listen") from error
    await peers.start(listener)
    reports = peers.reports
    peers.keep(ends.share(reports.others, reports.news, partial(peers.ask_all, ENDED_SESSIONS)))
    if settings.peer_secret_file:
        secrets = WatchedFile(
            settings.peer_secret_file, _parse, changed=lambda: peers.use_secrets(secrets.value)
        )
        peers.use_secrets(secrets.value)
        peers.keep(secrets.watch())
    node.candidate.reachable = peers.reachable
    node.watchers, node.peer_problems = peers.watchers, peers.problems
    cluster.others = peers.reports.others
    node.asks.ask_others = partial(peers.ask_all, ASKS)
    node.asks.without_answer = node.audit.without_answer = cluster.without_answer
    node.audit.url_of = cluster.url_of
    node.audit.ask_others = partial(peers.ask_all, AUDIT)
    node.primary_unreachable = lambda: peers.forwarding.last_error
    if host in ANY_HOST:
        host = node.identity.host
    address = f"[{host}]" if ":" in host else host
    address = settings.peer_advertise or f"{address}:{listener.getsockname()[1]}"
    own = "" if settings.advertise else ", taken from the setting listen: see advertise"
    _log.info("advertising %s to the other nodes%s", node.identity.url, own)
    _log.info("serving peers at %s", address)
    return peers, address


def _parse(content: bytes) -> list[str]:
    try:
        secrets: str = PEER_SECRET.read(content.decode())
    except ValueError:
        raise FileError(f"is not a valid peer_secret; allowed: {PEER_SECRET.allowed}") from None
    if not secrets:
        raise FileError("holds no secret")
    return secrets.split("\n")
