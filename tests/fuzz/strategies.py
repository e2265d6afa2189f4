"""Requests to existing resources, with likely and unlikely values in every place."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import orjson
from hypothesis import strategies as st

from tests.api.driver import record

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_KNOWN = st.sampled_from(["s", "r", "user", "nick", "new", ":.c:s"])
SUBJECTS = st.one_of(
    _KNOWN,
    _KNOWN,
    _KNOWN,
    st.sampled_from([":.c:", ":.:", ":.__GLOBAL:", ":*:", "__EMPTY", ":.c:r", ""]) | st.text(max_size=20),
)
VALUES: dict[str, st.SearchStrategy[str]] = {
    "webhook": st.sampled_from(["h", "h", "k", "-", "a b", "x" * 200]),
    "version": st.sampled_from(["latest", "1", "2", "-1", "3", "0", "LATEST ", "x", "9" * 30, " "]),
    "id": st.sampled_from(["1", "2", "3", "4", "0", "-1", "2147483647", "2147483648", "+1", "x", "٣"]),
    "guid": st.sampled_from(["095d71cf-1255-6b9d-5e33-0ad575b3df5d", "x", "0" * 32]),
    "context": st.sampled_from([".", ".c", "c", ":.c:", "d", ":", "a:b"]) | st.text(max_size=5),
}
NUMBERS = st.sampled_from(["-1", "0", "1", "2", "-2", "", "x", "2147483647", "99999999999", "1e3"])
FLAGS = st.sampled_from(["true", "true", "false", "TRUE", "1", ""])
LEVELS = st.sampled_from(["BACKWARD", "FORWARD_TRANSITIVE,full", "NONE", "BACKWARD_USED", "x", ""])
PARTS = st.sampled_from(["details,numbers", "usage,referrers", "askers", "lastChange", "x", ""])
SORTS = st.sampled_from(["name", "-name", "id", "-id", "-id", "ID", "+id", ""])
WORDS = st.sampled_from(["", "resolved", "qualified", "*", "owner", "me", "topic", ".c"]) | SUBJECTS
QUERIES = {
    "sort": SORTS, "level": LEVELS, "include": PARTS, "againstSubject": SUBJECTS,
    **{name: VALUES[name] for name in ("id", "guid")}, "against": VALUES["version"],
}  # fmt: skip
SCHEMAS = st.sampled_from(
    ['"string"', '"int"', record("R", "a"), record("R", "a", "b", "c"), record("Q"), '["null","int"]']
) | st.sampled_from(
    [
        "",
        " ",
        "null",
        "{}",
        "[]",
        "\x00",
        "[" * 5000,
        '{"type":"record","name":"R","fields":[{"name":"r","type":"R"}]}',
        '{"type":"record","name":"U","fields":[{"name":"r","type":"R"},{"name":"x","type":"int"}]}',
        '{"type":"enum"}',
        '"R"',
        "true",
        '{"type":"object","properties":{"a":{"type":"string"}}}',
        '{"type":"object","properties":{"a":{"$ref":"R"}},"additionalProperties":false}',
        '{"anyOf":[{"$ref":"#"},{"type":["integer","null"],"maximum":1e400}]}',
        'syntax = "proto3"; message M { string a = 1; }',
        'syntax = "proto3"; message M { int32 a = 1; google.type.Money m = 2; }',
        'syntax = "proto3"; import "R"; message M { map<string, R> r = 1 [(x).y = {}]; }',
        "CgFhIgMKAU0=",
    ]
)


def _some(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=members)


def _bodies(junk: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[dict[str, Any]]]:
    """Return bodies by the names of their schemas, with ``junk`` in any place."""
    texts = st.sampled_from(["1", "a", "", "r"]) | junk
    reference = _some(name=st.just("R") | junk, subject=SUBJECTS | junk, version=st.integers(-1, 3) | junk)
    complete = st.fixed_dictionaries(
        {"name": st.just("R"), "subject": st.sampled_from(["r", "s", "user"]), "version": st.integers(-1, 3)}
    )
    properties = st.dictionaries(
        st.sampled_from(["confluent:version", "confluent:reserved", "g", "owner"]), texts
    )
    metadata = _some(
        properties=properties | junk,
        tags=st.dictionaries(st.text(max_size=3), st.lists(texts, max_size=3)) | junk,
        sensitive=st.lists(texts, max_size=3) | junk,
    )
    rule = _some(
        name=st.sampled_from(["r", "q"]) | texts,
        kind=st.sampled_from(["CONDITION", "TRANSFORM"]) | texts,
        mode=st.sampled_from(["WRITE", "UPGRADE"]) | texts,
        type=st.just("CEL") | junk,
        params=st.dictionaries(texts.filter(lambda each: isinstance(each, str)), texts, max_size=2) | junk,
        tags=st.lists(texts, max_size=2) | junk,
        disabled=st.booleans() | junk,
    )
    groups = st.lists(rule | junk, max_size=2) | junk
    rules = _some(domainRules=groups, migrationRules=groups, encodingRules=groups, enableAt=texts)
    flags = st.booleans() | junk
    entity = _some(
        entityPath=st.sampled_from(["R", ".R.f", "M", "M.f", "object", "object.f", "R.nothing"]) | junk,
        entityType=st.sampled_from(["sr_record", "sr_field"]) | junk,
    )
    tags = st.lists(_some(schemaEntity=entity | junk, tags=st.lists(texts, max_size=2) | junk), max_size=2)
    schema = _some(
        schemaTagsToAdd=tags | junk,
        schemaTagsToRemove=tags | junk,
        propagateSchemaTags=flags,
        schema=SCHEMAS | SCHEMAS | junk,
        schemaType=st.sampled_from(["AVRO", "AVRO", "JSON", "PROTOBUF", "PROTOBUF", "avro"]) | junk,
        references=st.lists(complete | reference | junk, max_size=2) | junk,
        metadata=metadata | junk,
        ruleSet=rules | junk,
        version=st.integers(-2, 4) | junk,
        id=st.integers(-2, 6) | st.just(2**31 - 1) | junk,
    )
    config = _some(
        compatibility=st.sampled_from(["FULL", "none", "FORWARD_TRANSITIVE", "x"]) | junk,
        compatibilityGroup=st.just("g") | junk,
        compatibilityPolicy=texts,
        alias=SUBJECTS | junk,
        normalize=flags,
        validateFields=flags,
        validateNewSchemas=flags,
        defaultMetadata=metadata | junk,
        overrideMetadata=metadata | junk,
        defaultRuleSet=rules | junk,
    )
    modes = st.sampled_from(["IMPORT", "READONLY", "READWRITE", "forward", None, ""])
    registration = st.one_of(schema, *[SCHEMAS.map(lambda each: {"schema": each})] * 2)
    names = st.sampled_from(["n", "m", "-", "a.b", ""]) | junk
    resource = {
        "resourceName": names,
        "resourceNamespace": st.just(".c") | st.just("ns") | junk,
        "resourceId": texts,
        "resourceType": st.sampled_from(["topic", None, "x"]) | junk,
    }
    association = {
        "subject": SUBJECTS | junk,
        "associationType": st.sampled_from(["key", "value", "x"]) | junk,
        "lifecycle": st.sampled_from(["STRONG", "WEAK", None]) | junk,
        "frozen": flags,
        "schema": registration | junk,
        "normalize": flags,
    }
    operation = _some(
        opType=st.sampled_from(["CREATE", "UPSERT", "DELETE"]) | junk, cascadeLifecycle=flags, **association
    )
    associations = st.lists(_some(**association) | junk, max_size=2) | junk
    change = _some(associations=st.lists(operation | junk, max_size=3) | junk, **resource)
    wanted = _some(associationTypes=st.lists(texts, max_size=2) | junk, lifecycle=texts, **resource)
    numbers = st.integers(-1, 9) | junk
    uses = st.tuples(
        st.sampled_from(["key", "value"]) | junk,
        st.sampled_from(["id", "guid", "none"]) | junk,
        *[numbers] * 5,
    )
    side = _some(schema=SCHEMAS | junk, references=st.lists(complete | junk, max_size=1) | junk)
    types = st.sampled_from(["AVRO", "JSON", "PROTOBUF", "x"]) | junk
    typed = _some(schema=SCHEMAS | junk, schemaType=types) | junk
    compared = _some(
        schema=SCHEMAS | junk, schemaType=types, references=st.lists(complete | junk, max_size=1) | junk
    )
    return {
        "RegisterSchemaRequest": registration,
        "ComparedSchemas": _some(old=typed, new=typed),
        "ComparisonRequest": _some(old=compared | junk, new=compared | junk),
        "ExplainRequest": _some(
            schemaType=types,
            old=side | junk,
            new=side | junk,
            compatibilityPolicy=texts,
        ),
        "TagSchemaRequest": _some(
            newVersion=st.integers(-2, 4) | junk,
            tagsToAdd=tags | junk,
            tagsToRemove=tags | junk,
            metadata=metadata | junk,
            ruleSet=rules | junk,
            rulesToMerge=rules | junk,
            rulesToRemove=st.lists(texts, max_size=2) | junk,
        ),
        "ConfigUpdateRequest": config,
        "ModeUpdateRequest": _some(mode=modes | junk),
        "WebhookRequest": _some(
            url=st.sampled_from(["https://example.org/a", "http://127.0.0.1/", "https://u:p@h", "//"]) | junk,
            kinds=st.lists(st.sampled_from(["version_registered", "mode_set", "x"]) | junk, max_size=2)
            | junk,
            subjectPrefix=SUBJECTS | junk,
            enabled=flags,
            **{"from": st.integers(-2, 9) | st.just("now") | junk},
        ),
        "IdRelease": _some(
            context=st.sampled_from([".", ".c", ":.c:", ""]) | junk,
            to=st.integers(-1, 30) | st.just(2**31 - 1) | junk,
            **{"from": st.integers(-1, 30) | st.just(2**31) | junk},
        ),
        "Census": st.fixed_dictionaries(
            {
                **dict.fromkeys(("id", "location", "sha256", "base"), texts),
                **dict.fromkeys(("started", "ended", "sources", "unread", "partitions", "messages"), numbers),
                "complete": flags,
                "patterns": st.lists(texts, max_size=2) | junk,
            }
        ),
        "Usage": _some(
            census=texts,
            state=st.sampled_from(["read", "x"]) | junk,
            ms=numbers,
            messages=numbers,
            uses=st.lists(uses | junk, max_size=2) | junk,
        ),
        "WebhookPosition": _some(offset=st.integers(-2, 9) | st.just("now") | junk),
        "AssociationRequest": _some(associations=associations, **resource),
        "AssociationBatchRequest": _some(requests=st.lists(change | junk, max_size=2) | junk),
        "AssociationBatchGetRequest": _some(requests=st.lists(wanted | junk, max_size=2) | junk),
    }


_TIDY, _MESSY = _bodies(st.nothing()), _bodies(JSON)


def bodies(name: str) -> st.SearchStrategy[bytes]:
    """Return bodies of one schema of the OpenAPI document, most of them well typed."""
    return st.one_of(_TIDY[name], _TIDY[name], _MESSY[name], JSON).map(orjson.dumps)


def requests(description: dict[str, Any]) -> st.SearchStrategy[tuple[str, str, bytes]]:
    """Return method, target and body of requests that ``description``, an OpenAPI document, describes."""
    operations = [
        (path, method, operation)
        for path, found in sorted(description["paths"].items())
        for method, operation in sorted(found.items())
    ]
    places = range(len(operations))
    writes = [place for place in places if operations[place][1] != "get"]
    # By place, because hypothesis prints what it samples from.
    chosen = st.one_of(st.sampled_from(places), st.sampled_from(writes))
    return chosen.flatmap(lambda place: _request(operations[place]))


@st.composite
def _request(draw: st.DrawFn, operation: tuple[str, str, dict[str, Any]]) -> tuple[str, str, bytes]:
    path, method, described = operation
    pairs = []
    for parameter in described["parameters"]:
        name, kind = parameter["name"], parameter["schema"]["type"]
        if parameter["in"] == "path":
            path = path.replace("{" + name + "}", quote(draw(VALUES.get(name, SUBJECTS)), safe=":"))
        elif parameter["in"] == "query" and draw(st.booleans()):
            words = QUERIES.get(name, WORDS)
            value = draw({"integer": NUMBERS, "boolean": FLAGS}.get(kind, words))
            pairs.append(f"{name}={quote(value)}")
    if draw(st.integers(0, 5)) == 0:
        path = "/contexts/" + quote(draw(VALUES["context"]), safe=":") + path
    body = b""
    if "requestBody" in described:
        (schema,) = {each["schema"]["$ref"] for each in described["requestBody"]["content"].values()}
        body = draw(bodies(schema.rsplit("/", 1)[-1]))
    return method.upper(), f"{path}?{'&'.join(pairs)}", body
