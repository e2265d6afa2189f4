"""The public port."""

from __future__ import annotations

import socket


def listen(host: str, port: int, *, shared: bool) -> socket.socket:
    """Return a bound TCP socket.

    ``shared``: other processes of this user may bind the same port, and the kernel distributes connections.
    Raises :class:`OSError` if the port is taken or the address is not one of this host.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind(address)
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return bound
