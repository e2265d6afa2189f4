"""The index of words next to the store, for searches: derived from rows, and built again when in doubt."""
