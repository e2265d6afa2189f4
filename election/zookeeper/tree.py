"""The state of the election in ZooKeeper's tree, and its meaning for one of the nodes. Pure.

Confluent ≤ 6.x: the first node to create the ephemeral znode :data:`PRIMARY` is primary. It holds the
identity ``{"host":…,"port":…,"master_eligibility":…,"scheme":…,"version":1}``; 5.x rejects further fields.
So this project's own fields stand under :data:`MEMBERS`, in one ephemeral znode per node; two znodes of one
session belong to the same node.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from election.contract import Event, NoPrimary, PrimaryIs, Won
from election.identity import Identity, from_json, rejections, to_json

PRIMARY = "/schema_registry_master"
MEMBERS = "/registrar_members"
# Confluent ≤ 6.x: decimal text, the inclusive upper end of the last batch of ids.
COUNTER = "/schema_id_counter"
UNREADABLE = "the data of the primary's znode in ZooKeeper cannot be read"


@dataclass(frozen=True)
class Tree:
    """The members and the primary, by session."""

    # This node's own session.
    session: int
    members: Mapping[int, Identity]
    # The session of the primary; None: there is none.
    primary: int | None
    # The identity in the primary's znode; None also if it cannot be decoded.
    advertised: Identity | None = None

    @property
    def nodes(self) -> Mapping[int, Identity]:
        """All nodes, including a primary that is not a member (one of Confluent's)."""
        if self.primary is None or self.advertised is None:
            return self.members
        return {self.primary: self.advertised, **self.members}


def verdict(tree: Tree, own: Identity) -> Event | None:
    """Return what ``tree`` means to the node ``own``; ``None``: it may try to become primary."""
    rejected = rejections(tree.nodes, tree.primary).get(tree.session)
    if rejected:
        return NoPrimary(rejected, rejected=True)
    if tree.primary is None:
        return None if own.eligible else NoPrimary("no eligible node has become primary yet")
    if tree.primary == tree.session:
        return Won()
    identity = tree.nodes.get(tree.primary)
    return NoPrimary(UNREADABLE) if identity is None else PrimaryIs(identity)


def stale_sessions(tree: Tree, own: Identity) -> list[int]:
    """Return the sessions of this node's former lives, which were killed before they could end them."""
    return [
        session
        for session, identity in tree.members.items()
        if session != tree.session and own.node and (identity.node, identity.url) == (own.node, own.url)
    ]


def encode(identity: Identity, *, plain: bool = False) -> bytes:
    """Encode an identity for a znode; only Confluent's fields if ``plain``."""
    return json.dumps(to_json(identity, plain=plain), ensure_ascii=False, separators=(",", ":")).encode()


def decode(data: bytes) -> Identity | None:
    """Decode the identity in a znode; ``None`` if it is malformed."""
    try:
        return from_json(json.loads(data))
    except ValueError:
        return None
