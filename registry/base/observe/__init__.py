"""Log lines and metrics: what all processes of a host say about themselves, and how."""
