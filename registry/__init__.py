"""A schema registry that speaks Confluent's REST API and log format."""

from __future__ import annotations

VERSION = "0.3.0"
