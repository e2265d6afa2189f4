"""Schemas that the clients register, and matching values."""

from __future__ import annotations

import json
from typing import Any


def user(*more: dict[str, Any], name: str = "User") -> dict[str, Any]:
    """Return a record of two fields, and ``more``."""
    return {
        "type": "record",
        "name": name,
        "namespace": "org.example",
        "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}, *more],
    }


USER = user()
USER_TEXT = json.dumps(USER)
USER_WITH_EMAIL = user({"name": "email", "type": ["null", "string"], "default": None})
USER_WITH_EMAIL_TEXT = json.dumps(USER_WITH_EMAIL)
USER_WITH_AGE = user(
    {"name": "age", "type": "int"}
)  # Without a default, a reader of old data cannot fill it in.
USER_WITH_AGE_TEXT = json.dumps(USER_WITH_AGE)
ADA = {"id": 7, "name": "Ada Lovelace"}

ADDRESS_TEXT = json.dumps(
    {
        "type": "record",
        "name": "Address",
        "namespace": "org.example",
        "fields": [{"name": "street", "type": "string"}],
    }
)
PERSON_TEXT = json.dumps(
    {
        "type": "record",
        "name": "Person",
        "namespace": "org.example",
        "fields": [{"name": "name", "type": "string"}, {"name": "home", "type": "org.example.Address"}],
    }
)
EVE = {"name": "Eve", "home": {"street": "Main"}}
