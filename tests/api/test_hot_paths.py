"""Responses that skip routing are those that the application would have sent."""

from __future__ import annotations

from itertools import product

import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from registry.api.request_target import parse
from registry.domain.model import Subject
from registry.domain.subject_patterns import parse_pattern
from registry.reader.fast_path.reads import is_latest, latest_version, schema_by_id
from registry.reader.fast_path.registered import PLAIN_POSTS, Bodies, keys_of, registered_schema
from registry.security.authorization.rules import ROLES, RuleAccess
from tests.api.driver import Api, record

SUBJECTS = ("a", "b", "a%2Fb", ":.c:a", ":.c:", "%C3%BC" * 60, "__EMPTY")
UNSORTED = '{"type":"record","name":"R","fields":[],"aliases":["z","b"]}'
SCHEMAS = (
    '"string"',
    ' "string"',
    '{"type":"string"}',
    record("R", "x"),
    UNSORTED,
    record("R"),
    "nonsense",
    "",
)
TYPELESS = '{"type":"string","logicalType":"uuid"}'  # Canonical as either type, so that the guids are equal.
BODIES = (
    *(orjson.dumps({"schema": schema}) for schema in SCHEMAS),
    orjson.dumps({"schema": '"string"', "schemaType": "AVRO", "references": [], "metadata": None, "more": 1}),
    orjson.dumps({"schema": '"string"', "schemaType": "JSON"}),
    orjson.dumps({"schema": TYPELESS, "schemaType": "JSON"}),
    orjson.dumps({"schema": TYPELESS, "schemaType": "AVRO"}),
    orjson.dumps({"schema": '"string"', "metadata": {}}),
    orjson.dumps({"schema": '"string"', "metadata": {"properties": {"p": "1"}}}),
    orjson.dumps({"schema": '"string"', "ruleSet": {}}),
    orjson.dumps({"schema": '"string"', "version": 1}),
    orjson.dumps({"schema": '"string"', "version": -1}),
    orjson.dumps({"schema": '"string"', "id": 1}),
    orjson.dumps({"schema": '"string"', "references": [{"name": "x", "subject": "a", "version": 1}]}),
    b"{",
    b"",
)
CONFIGS = (
    {"normalize": True},
    {"compatibility": "NONE"},
    {"alias": "a"},
    {"alias": "b"},
    {"alias": ":.c:a"},
    {"defaultMetadata": {"properties": {"p": "1"}}},
    {"normalize": None, "alias": None, "defaultMetadata": None},
)
MODES = ("READONLY", "IMPORT", "READWRITE", None)

subjects = st.one_of(st.just("a"), st.sampled_from(SUBJECTS))
scopes = st.sampled_from(["", *(f"/{subject}" for subject in SUBJECTS), "/:.__GLOBAL:"])
registrations = st.tuples(
    st.just("POST"),
    st.builds(
        "/subjects/{}/versions{}".format, subjects, st.sampled_from(["", "?normalize=true", "?force=true"])
    ),
    st.one_of(st.sampled_from(BODIES[:4]), st.sampled_from(BODIES)),
)
changes = st.one_of(
    registrations,
    st.tuples(
        st.just("DELETE"),
        st.builds("/subjects/{}{}".format, subjects, st.sampled_from(["", "?permanent=true"])),
        st.just(b""),
    ),
    st.tuples(
        st.just("DELETE"),
        st.builds("/subjects/{}/versions/{}".format, subjects, st.integers(1, 3)),
        st.just(b""),
    ),
    st.tuples(st.just("PUT"), scopes.map("/config{}".format), st.sampled_from(CONFIGS).map(orjson.dumps)),
    st.tuples(
        st.just("PUT"),
        scopes.map("/mode{}?force=true".format),
        st.sampled_from(MODES).map(lambda mode: orjson.dumps({"mode": mode})),
    ),
)
QUERIES = (
    b"", b"fetchMaxId=false", b"fetchMaxId=true", b"subject=", b"subject=a", b"subject=b&fetchMaxId=false",
    b"subject=a%2Fb", b"subject=:.c:", b"subject=nobody", b"format=resolved", b"subject=%zz",
    b"subject=a&subject=b",
    b"subject=" + b"%C3%BC" * 60,
)  # fmt: skip
PATHS = (
    *(b"/schemas/ids/%d" % number for number in range(5)),
    b"/schemas/ids/x",
    b"/schemas/ids/99999999999",
    b"/subjects",
)


def spoiled(test):
    """Combine each case with each change that makes it no longer plain."""
    spoilers = [
        *(
            ("PUT", f"/config/{scope}", orjson.dumps(config))
            for scope in ("", "a", ":.c:")
            for config in CONFIGS
        ),
        ("DELETE", "/subjects/a", b""),
        ("DELETE", "/subjects/a/versions/1", b""),
        ("DELETE", "/subjects/b", b""),
    ]
    for spoiler in spoilers:
        test = example([spoiler])(test)
        test = example([spoiler, ("POST", "/subjects/a/versions", BODIES[0])])(test)
    return test


def posted(rows, path: bytes, query: bytes, body: bytes, bodies: Bodies, *access) -> bytes | None:
    """Answer a registration or a lookup as the fast path does, from the raw path and query."""
    segments, pairs = parse(path, query)
    post = PLAIN_POSTS["/subjects/{subject}/versions" if len(segments) == 3 else "/subjects/{subject}"]
    keys = keys_of(Subject.parse(segments[1]))
    return None if keys is None else registered_schema(rows, post, keys, pairs, body, bodies, *access)


def begun(steps) -> Api:
    """Return a registry in which something is registered and then changed."""
    api = Api()
    api.register("a", '"string"')
    api.post("/subjects/a/versions?force=true", {"schema": UNSORTED})
    api.register("b", '"string"')
    api.register(":.c:a", '"string"')
    for step in steps:
        api.request(*step)
    return api


@spoiled
@given(st.lists(changes, min_size=1, max_size=5))
def test_a_read_by_id_is_what_the_application_answers(steps) -> None:
    with begun(steps) as api:
        for path, query in product(PATHS, QUERIES):
            body = schema_by_id(api.backend.rows, path, query)
            if body is not None:
                reply = api.request("GET", path + b"?" + query)
                assert (reply.status, reply.body) == (200, body), (path, query)


@spoiled
@given(st.lists(changes, min_size=1, max_size=5))
def test_registering_again_is_what_the_application_answers(steps) -> None:
    bodies = Bodies(bytes_max=2000)
    with begun(steps) as api:
        for subject, query, body in product(SUBJECTS, ("", "normalize=true", "force=true"), BODIES):
            target = f"/subjects/{subject}/versions"
            fast = posted(api.backend.rows, target.encode(), query.encode(), body, bodies)
            if fast is not None:
                written = len(api.backend.log)
                reply = api.request("POST", f"{target}?{query}", body)
                assert (reply.status, reply.body, len(api.backend.log)) == (200, fast, written)


@spoiled
@given(st.lists(changes, min_size=1, max_size=5))
def test_a_lookup_is_what_the_application_answers(steps) -> None:
    bodies = Bodies(bytes_max=2000)
    queries = ("", "normalize=true", "normalize=false", "deleted=true", "deleted=false", "format=resolved")
    with begun(steps) as api:
        for subject, query, body in product(SUBJECTS, queries, BODIES):
            target = f"/subjects/{subject}"
            fast = posted(api.backend.rows, target.encode(), query.encode(), body, bodies)
            if fast is not None:
                reply = api.request("POST", f"{target}?{query}", body)
                assert (reply.status, reply.body) == (200, fast), (target, query, body)


@spoiled
@given(st.lists(changes, min_size=1, max_size=5))
def test_the_latest_version_is_what_the_application_answers(steps) -> None:
    with begun(steps) as api:
        for subject, query in product(SUBJECTS, (b"", b"deleted=true", b"format=resolved")):
            path = f"/subjects/{subject}/versions/latest".encode()
            found = latest_version(api.backend.rows, path, query)
            if found is not None:
                reply = api.request("GET", path + b"?" + query)
                header = f"etag: {reply.headers['etag']}\r\n".encode()
                assert (reply.status, header, reply.body) == (200, *found), (path, query)


def test_the_plain_cases_are_taken() -> None:
    api, bodies = Api(), Bodies()
    api.put("/config", {"compatibility": "FULL"})
    api.register("a", '"string"')
    api.register("b", '"int"')
    for query in (b"", b"fetchMaxId=false", b"subject=a", b"fetchMaxId=false&subject=a"):
        assert schema_by_id(api.backend.rows, b"/schemas/ids/1", query) is not None
    assert is_latest(b"/subjects/a/versions/latest")
    assert not is_latest(b"/subjects/a/versions/1")
    assert latest_version(api.backend.rows, b"/subjects/a/versions/latest", b"") is not None
    for query in (b"", b"normalize=false", b"force=false"):
        path = b"/subjects/a/versions"
        assert posted(api.backend.rows, path, query, BODIES[0], bodies) is not None
    for query in (b"", b"normalize=false&deleted=true", b"deleted=false"):
        assert posted(api.backend.rows, b"/subjects/a", query, BODIES[0], bodies) is not None
    for path in (b"/subjects/a/versions", b"/subjects/a"):
        assert posted(api.backend.rows, path, b"format=serialized", BODIES[0], bodies) is None
    api.close()


def test_a_text_is_not_taken_for_one_with_references_that_has_its_guid() -> None:
    # Put behind the text in the hash, name, subject and version of the reference make the second message.
    begin, version = 'syntax = "proto3";\n\nmessage A {}\n', int.from_bytes(b" {}\n", "big")
    reference = {"name": "message", "subject": " B", "version": version}
    other = {"schema": f"{begin}message B {{}}\n", "schemaType": "PROTOBUF"}
    with Api() as api:
        api.put("/mode/:.:%20B", {"mode": "IMPORT"})
        api.register("%20B", begin, schemaType="PROTOBUF", id=1, version=version)
        api.register("a", begin, schemaType="PROTOBUF", references=[reference])
        for path in (b"/subjects/a/versions", b"/subjects/a"):
            assert posted(api.backend.rows, path, b"", orjson.dumps(other), Bodies()) is None
        assert api.post("/subjects/a", other).error[1] == 40403
        assert api.post("/subjects/a/versions", other).error[1] == 42205


def test_bodies_are_forgotten_oldest_first() -> None:
    bodies = Bodies(bytes_max=1000)
    for each in BODIES * 3:
        assert bodies.content(each, new=True) == Bodies().content(each, new=False)
    assert 0 < len(bodies._contents) < len(BODIES)


def test_plain_cases_of_subjects_that_are_not_permitted_are_left_to_the_application() -> None:
    nobody = RuleAccess([])
    reader = RuleAccess([(ROLES["reader"], (parse_pattern("a"),))])
    developer = RuleAccess([(ROLES["developer"], (parse_pattern("a"),))])
    with Api() as api:
        api.register("a", '"string"')
        rows, latest, path = api.backend.rows, b"/subjects/a/versions/latest", b"/subjects/a/versions"
        assert latest_version(rows, latest, b"", nobody) is None
        assert latest_version(rows, latest, b"", reader) == latest_version(rows, latest, b"")
        for access in (nobody, reader):
            assert posted(rows, path, b"", BODIES[0], Bodies(), access) is None
        assert posted(rows, path, b"", BODIES[0], Bodies(), developer) is not None
        assert posted(rows, b"/subjects/a", b"", BODIES[0], Bodies(), nobody) is None
        assert posted(rows, b"/subjects/a", b"", BODIES[0], Bodies(), reader) is not None
