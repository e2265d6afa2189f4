"""The search index next to the store, for searches: derived from rows, and built again when in doubt."""
