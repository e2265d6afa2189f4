"""Webhooks: what is sent, how it is signed, where it may go, and when it is tried again."""
