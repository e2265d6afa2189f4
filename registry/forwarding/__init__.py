"""How the nodes of one cluster reach each other: forwarded commands, and who is there."""
