"""Confluent's metadata encoder: the keyset, its storage, and the ciphers."""
