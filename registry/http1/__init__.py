"""The HTTP/1.1 server of the public port: one process, many connections.

It runs on asyncio or uvloop and reads with httptools (Node's parser). Readers use it, and so does a node
without readers (:mod:`registry.public_server`). The peer endpoint needs HTTP/2, which this server does not
speak (:mod:`registry.forwarding.server`).

Granian 2.8 left half-closed connections without an answer (19 of 20 tried), its RSGI scope holds paths with
``%2F`` decoded, so that a slash within a subject cannot be told from one between segments, and it has one
time-out for headers and idleness. Here targets stay as they were sent, broken requests are refused in the
registry's own shape, and what slow and greedy clients can hold is bounded.

Answers may be streamed: see ``exchange``.

``connection`` serves one client's requests in their order. Its input passes ``inflow`` (when the socket is
read), ``reading`` (slices and what was sent ahead) and ``parsing``; its output ``exchange`` (the ASGI
application for one request), ``answers`` (printing) and ``writing`` (what the client has not read). All
connections share ``intake`` (room for bodies), ``unread`` (room for answers) and ``turns`` (the event loop).
``server`` listens, watches the clocks and stops.
"""
