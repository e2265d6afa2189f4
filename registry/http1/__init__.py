"""An HTTP/1.1 server on uvloop and httptools (Node's parser), for one process and many connections.

Why not one from the index: it must hand over request targets as they were sent (a subject may hold ``%2F``),
answer clients that have closed their sending side, refuse broken requests in the registry's own shape, and
bound what slow and greedy clients can hold. The servers that were tried fail one of these, and none is
faster.

``connection`` reads requests and keeps their order, ``exchange`` runs the ASGI application for one of them,
``answers`` prints, ``server`` listens, watches the clocks and stops.
"""
