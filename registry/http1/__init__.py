"""The HTTP/1.1 server of the public port: one process, many connections.

It runs on asyncio or uvloop and reads with httptools (Node's parser). Readers use it, and so does a node
without readers (:mod:`registry.public_server`). The peer endpoint needs HTTP/2, which this server does not
speak (:mod:`registry.forwarding.server`).

Granian 2.8 left half-closed connections without an answer (19 of 20 tried), its RSGI scope holds paths with
``%2F`` decoded, so that a slash within a subject cannot be told from one between segments, and it has one
time-out for headers and idleness. Here targets stay as they were sent, broken requests are refused in the
registry's own shape, and what slow and greedy clients can hold is bounded.

Answers may be streamed: see ``exchange``.

``connection`` reads requests and keeps their order, ``exchange`` runs the ASGI application for one of them,
``answers`` prints, ``server`` listens, watches the clocks and stops.
"""
