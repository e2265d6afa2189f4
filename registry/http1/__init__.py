"""The HTTP/1.1 server of the public port: one process, many connections.

It runs on asyncio or uvloop and parses with httptools (Node's llhttp). Readers use it
(:mod:`registry.host.public_server`). The peer endpoint needs HTTP/2, which this server does not speak
(:mod:`registry.forwarding.server`).

Why not an existing server: Granian 2.8 left half-closed connections unanswered (19 of 20 tried), its RSGI
scope decodes ``%2F`` in paths, so that a slash within a subject looks like a separator, and it has a single
timeout for headers and idle connections. This server passes targets on as they were sent, refuses malformed
requests in the registry's own error format, and bounds the resources that slow or greedy clients can hold.

Answers may be streamed: see ``exchange``.

``connection`` serves one client's requests in order. Its input goes through ``inflow`` (pauses the socket),
``reading`` (slices and pipelined data) and ``parsing``; its output through ``exchange`` (calls the ASGI
application for one request), ``answers`` (encoding) and ``output`` (flow control). All connections share a
``service``: the application, the limits, the room for bodies and unread answers, and turns on the event loop
(``fairness``). ``server`` listens, enforces deadlines and stops. Imports go in the opposite direction.
"""
