"""Builds snapshots of the rows away from the nodes, and restores, compares and exports them."""
