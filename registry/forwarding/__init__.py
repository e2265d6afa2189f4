"""Communication between the nodes of a cluster: forwarded commands, and the peers' roles."""
