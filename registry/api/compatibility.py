"""Compatibility checks; nothing is written."""
