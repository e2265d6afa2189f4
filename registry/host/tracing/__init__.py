"""Traces of requests by OpenTelemetry, over all processes that a request passes through."""
