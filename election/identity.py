"""A node's identity in the election: the address it advertises, and reasons not to elect it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Any, TypeVar

VERSION = 1


@dataclass(frozen=True)
class Identity:
    """The identity that a node advertises. ``scheme``, ``host`` and ``port`` form its public URL."""

    scheme: str
    host: str
    port: int
    # True if it may be the primary.
    eligible: bool
    version: int = VERSION
    # HOST:PORT of its peer endpoint; "": none, or unknown (one of Confluent's nodes).
    peer: str = ""
    # Distinguishes two nodes of this project that advertise the same URL; "": unknown.
    node: str = ""
    # When the node first advertised this URL, ms since the epoch; 0: unknown.
    since_ms: int = 0

    @property
    def url(self) -> str:
        """``scheme://host:port``, with the brackets that an IPv6 address needs."""
        host = f"[{self.host}]" if ":" in self.host and not self.host.startswith("[") else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """True if the address is a loopback address, which means another node on every host."""
        host = self.host.strip("[]").lower().rstrip(".")
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return host == "localhost" or host.endswith(".localhost")

    @property
    def name(self) -> str:
        """The node's name in messages."""
        return f"node {self.node} at {self.url}" if self.node else f"the node at {self.url}"

    def same(self, other: Identity) -> bool:
        """Return True if equal by Confluent 8.x's rules: URL, eligibility and version."""
        return _observe(self) == _observe(other)


def _observe(identity: Identity) -> Identity:
    return replace(identity, peer="", node="", since_ms=0)


def to_json(identity: Identity, *, plain: bool = False) -> dict[str, Any]:
    """Return the fields of ``identity`` in the order in which Confluent writes them.

    This project's own fields come last, and are omitted if ``plain``: Confluent's nodes ignore unknown fields
    since 6.2; older ones reject them.
    """
    fields: dict[str, Any] = {
        "host": identity.host,
        "port": identity.port,
        "master_eligibility": identity.eligible,
        "scheme": identity.scheme,
        "version": identity.version,
    }
    return fields if plain else fields | own_fields(identity)


def own_fields(identity: Identity) -> dict[str, Any]:
    """Return this project's own fields, beyond Confluent's."""
    ours: dict[str, Any] = {
        "registrar_peer": identity.peer,
        "registrar_node": identity.node,
        "registrar_since": identity.since_ms,
    }
    return {name: value for name, value in ours.items() if value}


def from_json(fields: Any) -> Identity:
    """Return the identity in decoded JSON. Raises :class:`ValueError`; unknown fields are ignored."""
    if not isinstance(fields, Mapping):
        raise ValueError("an identity must be an object")  # noqa: TRY004  one kind of error for all that is wrong
    return Identity(
        scheme=_text(fields, "scheme", "http"),
        host=_text(fields, "host"),
        port=_port(fields),
        eligible=fields.get("master_eligibility") is True,
        version=_number(fields, "version", VERSION),
        peer=_text(fields, "registrar_peer", ""),
        node=_text(fields, "registrar_node", ""),
        since_ms=_number(fields, "registrar_since", 0),
    )


def _text(fields: Mapping[str, Any], name: str, missing: str | None = None) -> str:
    value = fields.get(name, missing)
    if not isinstance(value, str):
        raise ValueError(f"an identity's {name} must be a string")  # noqa: TRY004
    return value


def _port(fields: Mapping[str, Any]) -> int:
    port = fields.get("port")
    if type(port) is not int or not 0 < port < 65536:
        raise ValueError("an identity's port must be a number from 1 to 65535")
    return port


def _number(fields: Mapping[str, Any], name: str, missing: int) -> int:
    number = fields.get(name, missing)
    if type(number) is not int:
        raise ValueError(f"an identity's {name} must be a number")
    return number


PROBE_TIMEOUT_S = 1.0

Key = TypeVar("Key", bound=Hashable)


def rejections(nodes: Mapping[Key, Identity], primary: Key | None = None) -> dict[Key, str]:
    """Return the reason for each of ``nodes`` that is rejected; ``primary`` is the current one.

    If several nodes advertise one URL, to which writes would be forwarded, the one that advertised it first
    stays, regardless of which is the primary or was restarted. If that is not known of all of them, the
    primary stays; if none is the primary, all are rejected. A loopback address is rejected if any node
    advertises another kind: from other hosts it leads nowhere, or back to the host that uses it.
    """
    return duplicates(nodes, primary) | _loopbacks(nodes)


def duplicates(nodes: Mapping[Key, Identity], primary: Key | None = None) -> dict[Key, str]:
    """Return the reason for each node that advertises another's URL, except for the one that keeps it."""
    sharing: dict[str, list[Key]] = defaultdict(list)
    for key, identity in nodes.items():
        sharing[identity.url].append(key)
    reasons: dict[Key, str] = {}
    for url, keys in sharing.items():
        first = _first(nodes, keys)
        keeps = primary if first is None else first
        for key in keys:
            if key != keeps and (other := _another(keys, key, keeps)) is not None:
                was = "" if first is None else " (which had it first)"
                reasons[key] = (
                    f"{_name(nodes[key], key)} and {_name(nodes[other], other)}{was} both advertise {url}:"
                    " give each an address of its own with --advertise"
                )
    return reasons


def _first(nodes: Mapping[Key, Identity], keys: list[Key]) -> Key | None:
    """Return the one of ``keys`` that advertised its URL first; ``None`` if that is unknown."""
    times = sorted(nodes[key].since_ms for key in keys)
    if len(times) < 2 or not times[0] or times[0] == times[1]:
        return None
    return next(key for key in keys if nodes[key].since_ms == times[0])


def _name(identity: Identity, key: object) -> str:
    return f"node {identity.node or key}"


def _another(keys: list[Key], key: Key, keeps: Key | None) -> Key | None:
    others = [other for other in keys if other != key]
    if keeps in others:
        return keeps
    return others[0] if others else None


def _loopbacks(nodes: Mapping[Key, Identity]) -> dict[Key, str]:
    """Return the reason for each loopback address, if any node advertises another kind."""
    elsewhere = next((identity for identity in nodes.values() if not identity.loopback), None)
    if elsewhere is None:
        return {}
    return {
        key: f"{identity.name} advertises a loopback address, which {elsewhere.name} cannot reach:"
        " give it an address that its peers can reach with --advertise"
        for key, identity in nodes.items()
        if identity.loopback
    }


# Probes the node at an advertised address; returns "", or a full sentence why it cannot be reached.
Reachable = Callable[[Identity], Awaitable[str]]


async def unreachable(reachable: Reachable | None, identity: Identity) -> str:
    """Return why ``identity`` cannot be reached; "" if it can, or if there is no probe."""
    if reachable is None:
        return ""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            return await reachable(identity)
    except TimeoutError:
        return f"{identity.url} did not answer in {PROBE_TIMEOUT_S:g} s"
    except OSError as error:
        return f"{identity.url} cannot be reached: {error}"
