"""The parent process: starts a node and its readers, restarts those that die, stops all in order.

It does nothing else, so that nothing else can bring it down. A child that refuses to start, because its data
are damaged or its port is taken, would refuse again: then everything ends with the child's message.
"""
