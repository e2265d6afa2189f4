"""What stands in ZooKeeper's tree, and what it means to one of the nodes. Pure.

Confluent ≤ 6.x: whoever creates the ephemeral node :data:`PRIMARY` first is primary; it holds its identity
``{"host":…,"port":…,"master_eligibility":…,"scheme":…,"version":1}``, and 5.x refuses further fields there.
So what this project's nodes say beyond that stands under :data:`MEMBERS`, one ephemeral node for each; two
nodes of one session are one node's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from election.contract import Event, NoPrimary, PrimaryIs, Won
from election.identity import Identity, from_json, to_json
from election.rejections import refusals

PRIMARY = "/schema_registry_master"
MEMBERS = "/registrar_members"
UNREADABLE = "what ZooKeeper's primary node holds cannot be read"


@dataclass(frozen=True)
class Tree:
    """Who is there, by session."""

    session: int
    """This node's own."""
    members: Mapping[int, Identity]
    primary: int | None
    """The session of the primary; ``None``: there is none."""
    advertised: Identity | None = None
    """What the primary's node holds; ``None`` also where it cannot be read."""

    @property
    def nodes(self) -> Mapping[int, Identity]:
        """All nodes, a primary that is no member (one of Confluent's) among them."""
        if self.primary is None or self.advertised is None:
            return self.members
        return {self.primary: self.advertised, **self.members}


def meaning(tree: Tree, own: Identity) -> Event | None:
    """What ``tree`` says to the node ``own``; ``None``: it may take the office, which is vacant."""
    refused = refusals(tree.nodes, tree.primary).get(tree.session)
    if refused:
        return NoPrimary(refused, refused=True)
    if tree.primary is None:
        return None if own.eligible else NoPrimary("no node that is eligible has taken the office yet")
    if tree.primary == tree.session:
        return Won()
    identity = tree.nodes.get(tree.primary)
    return NoPrimary(UNREADABLE) if identity is None else PrimaryIs(identity)


def former_sessions(tree: Tree, own: Identity) -> list[int]:
    """The sessions that a node of this name and address has left behind, killed before it could end them."""
    return [
        session
        for session, identity in tree.members.items()
        if session != tree.session and own.node and (identity.node, identity.url) == (own.node, own.url)
    ]


def written(identity: Identity, *, plain: bool = False) -> bytes:
    """The identity as a node holds it; only Confluent's fields when ``plain``."""
    return json.dumps(to_json(identity, plain=plain), ensure_ascii=False, separators=(",", ":")).encode()


def read(data: bytes) -> Identity | None:
    """The identity that a node holds; ``None``: it cannot be read."""
    try:
        return from_json(json.loads(data))
    except ValueError:
        return None
