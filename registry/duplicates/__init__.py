"""Searches for duplicates in a running registry."""
