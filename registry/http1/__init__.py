"""The readers' HTTP/1.1 server, on uvloop and httptools (Node's parser): one process, many connections.

It is the readers' alone, where every microsecond of a read counts: hypercorn, by which a node without readers
serves (:mod:`registry.node.public`), answers a thirteenth of the reads by id and a quarter of other reads.
Granian 2.8 left half-closed connections without an answer (19 of 20 tried), its RSGI scope holds paths with
``%2F`` decoded, so that a slash within a subject cannot be told from one between segments, and it has one
time-out for headers and idleness. Here targets stay as they were sent, broken requests are refused in the
registry's own shape, and what slow and greedy clients can hold is bounded.

Answers may be streamed: see ``exchange``.

``connection`` reads requests and keeps their order, ``exchange`` runs the ASGI application for one of them,
``answers`` prints, ``server`` listens, watches the clocks and stops.
"""
