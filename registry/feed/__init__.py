"""The change feed: events of the log in their order, for many listeners of one process.

A *position* is the offset of the next record whose event a listener wants. The node keeps the events of the
newest records (:class:`.ring.Ring`) and reads older ones from the log again. Each process that serves HTTP
pulls pages of events from its node, one request at a time, keeps the newest as well, and passes them on to
its listeners (:class:`.hub.Hub`).
"""
