"""The readers' HTTP/1.1 server, on uvloop and httptools (Node's parser): one process, many connections.

It is the readers' alone, where every microsecond of a read counts. Hypercorn, by which a node without readers
serves (:mod:`registry.node.public`), takes ten times as long for a request. Granian is as fast, but it dropped
half-closed connections without an answer, 20 of 20; its RSGI scope holds paths with ``%2F`` decoded, so that a
subject that holds a slash cannot be told from two segments; and it has one time-out for headers and idleness.
Here targets stay as they were sent, broken requests are refused in the registry's own shape, and what slow and
greedy clients can hold is bounded.

``connection`` reads requests and keeps their order, ``exchange`` runs the ASGI application for one of them,
``answers`` prints, ``server`` listens, watches the clocks and stops.
"""
