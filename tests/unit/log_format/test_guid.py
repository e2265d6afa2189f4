"""The guid of a schema: MD5 over text, references, metadata and rules."""

from __future__ import annotations

from hashlib import md5

import msgspec
import pytest

from registry.domain.model import Metadata, Reference, Subject, guid_text, identity, metadata, rule_set


def guid(*args: object) -> str:
    return guid_text(identity(*args))  # type: ignore[arg-type]


def test_the_string_schema_has_confluents_guid() -> None:
    assert guid('"string"') == "095d71cf-1255-6b9d-5e33-0ad575b3df5d"


def test_what_is_hashed_stands_without_separators() -> None:
    meta = metadata({"tags": {"t": ["z", "y"]}, "properties": {"b": "2", "a": "1"}, "sensitive": ["b", "a"]})
    rules = rule_set(
        {
            "migrationRules": [
                {"name": "m", "params": {"q": "2", "p": "1"}, "tags": ["v", "u"], "disabled": True}
            ],
            "domainRules": [{"name": "d", "kind": "CONDITION", "mode": "READ", "type": "CEL", "expr": "e"}],
            "enableAt": "CLIENT",
        }
    )
    said = identity("é", [Reference("n", "s", 2), Reference("m", "t", -1)], meta, rules)
    text = "é".encode() + b"ns\0\0\0\x02mt\xff\xff\xff\xff"
    text += b"\x01tyza1b2ab"
    text += b"\x01mTRANSFORMWRITEREADuvp1q2\x01dCONDITIONREADCELeCLIENT"
    assert said == md5(text, usedforsecurity=False).digest()


def test_an_empty_metadata_differs_from_none_but_absent_pieces_add_nothing() -> None:
    assert identity("x", (), Metadata()) == md5(b"x\x01", usedforsecurity=False).digest()
    assert identity("x", (), None, rule_set({})) == md5(b"x\x01", usedforsecurity=False).digest()
    assert identity("x", ()) == md5(b"x", usedforsecurity=False).digest()


def test_sets_and_maps_are_sorted_as_java_sorts_them() -> None:
    meta = metadata(
        {"sensitive": ["\ue000", "\U0001f600", "a", "a"], "tags": {"\ue000": [], "\U0001f600": []}}
    )
    assert meta.sensitive == ["a", "\U0001f600", "\ue000"]
    assert list(meta.tags or {}) == ["\U0001f600", "\ue000"]


def test_rules_get_confluents_defaults_and_print_their_flag() -> None:
    rules = rule_set(
        {"domainRules": [{"name": "r", "doc": "", "tags": [], "params": {}}], "encodingRules": []}
    )
    assert msgspec.json.encode(rules) == (
        b'{"domainRules":[{"name":"r","kind":"TRANSFORM","mode":"WRITEREAD","disabled":false}]}'
    )


@pytest.mark.parametrize(
    ("text", "subject", "qualified"),
    [
        ("name", Subject(".", "name"), "name"),
        (":.:name", Subject(".", "name"), "name"),
        (":.ctx:name", Subject(".ctx", "name"), ":.ctx:name"),
        (":.ctx:", Subject(".ctx", ""), ":.ctx:"),
        (":.ctx", Subject(".ctx", ""), ":.ctx:"),
        (":.", Subject(".", ""), ""),
        ("", Subject(".", ""), ""),
        (":.__GLOBAL:", Subject(".__GLOBAL", ""), ":.__GLOBAL:"),
        (":ctx:name", Subject(".", ":ctx:name"), ":ctx:name"),
        (":.a:b:c", Subject(".a", "b:c"), ":.a:b:c"),
        (":.::.a:b", Subject(".", ":.a:b"), ":.::.a:b"),
    ],
)
def test_a_qualified_name_is_split_and_joined(text: str, subject: Subject, qualified: str) -> None:
    assert Subject.parse(text) == subject
    assert subject.qualified == qualified
    assert Subject.parse(qualified) == subject
