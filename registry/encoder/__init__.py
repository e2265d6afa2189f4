"""Confluent's metadata encoder: the keyset, where it is kept, and what it encrypts."""
