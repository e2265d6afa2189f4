"""Builds and publishes snapshots of the rows, away from the nodes."""
