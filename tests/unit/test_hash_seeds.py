"""Independence of messages and references from the order in which a process keeps its sets."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.running import ROOT

# Prints which member of a keyword's value is named, and which of five schemas with one id is found.
SCRIPT = """
import json
from registry.domain.schemas.contract import InvalidSchema
from registry.domain.schemas.json_schema.format import JsonFormat

def parsed(schema):
    return JsonFormat().parse(json.dumps(schema), new=True).node()

for draft in ("http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-06/schema#",
              "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema",
              "https://json-schema.org/draft/2020-12/schema"):
    for keyword in ("properties", "patternProperties", "dependencies"):
        try:
            parsed({"$schema": draft, "type": "object", keyword: {name: 1 for name in ("c", "a", "d", "b")}})
        except InvalidSchema as error:
            print(str(error).split(": ")[1])
    own = "id" if "04" in draft else "$id"
    twice = {keyword: {own: "twice.json", "type": kind} for keyword, kind in (
        ("not", "string"), ("additionalProperties", "integer"), ("items", "array"), ("contains", "boolean"))}
    node = parsed({"$schema": draft, own: "http://x/root.json", "properties": {"a": {"$ref": "twice.json"}},
                   **twice, "allOf": [{own: "twice.json", "type": "null"}]})
    [found] = [part.properties["a"] for part in node.branches if hasattr(part, "properties")]
    print(getattr(found, "target", found).kind)
"""
SAID = "#/properties/c\n#/patternProperties/c\n#/dependencies/c\nstring\n" * 5


USERS = """
from registry.security.authentication.users import parse_users
from registry.security.watched_file import FileError
try:
    parse_users(b"user: password,\\\\u001b3,\\\\u001b1,\\\\u001b4,\\\\u001b2")
except FileError as error:
    print(error.reason)
"""
REFUSED = "the name '\\x1b1' contains non-printing characters\n"


def printed(script: str, seed: int) -> str:
    own = {**os.environ, "PYTHONHASHSEED": str(seed)}
    command = [sys.executable, "-c", script]
    return subprocess.run(command, env=own, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("seed", range(4))
def test_the_first_of_several_errors_and_of_several_schemas_with_one_id_counts(seed: int) -> None:
    assert printed(SCRIPT, seed) == SAID


@pytest.mark.parametrize("seed", range(4))
def test_of_several_groups_that_are_refused_the_same_is_named(seed: int) -> None:
    assert printed(USERS, seed) == REFUSED
