"""The request target: decoding, and the rewriting of context paths."""

from __future__ import annotations

import pytest

from registry.api.request_target import in_context, parse
from registry.domain.errors import RegistryError


def rewritten(method: str, url: str) -> tuple[str, dict[str, str]]:
    path, _, query = url.partition("?")
    found = in_context(method, parse(path.encode(), query.encode()))
    return "/".join(found.segments), dict(found.query)


@pytest.mark.parametrize(
    ("raw", "segments"),
    [
        (b"/subjects", ("subjects",)),
        (b"//subjects///s//", ("subjects", "s")),
        (b"/subjects/a%2Fb/versions", ("subjects", "a/b", "versions")),
        (b"/subjects/a%252Fb", ("subjects", "a%2Fb")),
        (b"/subjects/a+b", ("subjects", "a+b")),
        (b"/subjects/%C3%BC", ("subjects", "ü")),
        ("/subjects/ü".encode(), ("subjects", "ü")),
        (b"/", ()),
    ],
)
def test_segments_are_decoded_once(raw: bytes, segments: tuple[str, ...]) -> None:
    assert parse(raw, b"").segments == segments


def test_query_is_decoded_and_keeps_its_order() -> None:
    found = parse(b"/", b"key=a+b&key=c%26d&&flag&empty=")
    assert found.query == (("key", "a b"), ("key", "c&d"), ("flag", ""), ("empty", ""))


@pytest.mark.parametrize("raw", [b"/a%", b"/a%2", b"/a%zz", b"/a%ff", b"/a%C3", b"/\xff"])
def test_broken_encoding_is_400(raw: bytes) -> None:
    for path, query in ((raw, b""), (b"/", raw)):
        with pytest.raises(RegistryError) as caught:
            parse(path, query)
        assert caught.value.code == 400


@pytest.mark.parametrize(
    ("method", "url", "path", "query"),
    [
        ("GET", "/subjects/s", "subjects/s", {}),
        ("GET", "/contexts", "contexts", {}),
        ("POST", "/contexts/c/subjects/s/versions", "subjects/:.c:s/versions", {}),
        ("POST", "/contexts/.c/subjects/s/versions", "subjects/:.c:s/versions", {}),
        ("POST", "/contexts/:.c:/subjects/s/versions", "subjects/:.c:s/versions", {}),
        ("POST", "/contexts/:.c/subjects/s/versions", "subjects/:.c:s/versions", {}),
        ("POST", "/contexts/%3A.c%3A/subjects/s/versions", "subjects/:.c:s/versions", {}),
        ("GET", "/contexts/c/subjects/:.d:s", "subjects/:.d:s", {}),
        ("GET", "/contexts/c/subjects/:*:s", "subjects/:*:s", {}),
        (
            "POST",
            "/contexts/c/compatibility/subjects/s/versions/1",
            "compatibility/subjects/:.c:s/versions/1",
            {},
        ),
        ("GET", "/contexts/c/associations/subjects/s", "associations/subjects/:.c:s", {}),
        ("GET", "/contexts/c/subjects", "subjects", {"subjectPrefix": ":.c:"}),
        ("GET", "/contexts/c/subjects?subjectPrefix=a", "subjects", {"subjectPrefix": ":.c:a"}),
        ("GET", "/contexts/c/subjects?subjectPrefix=:.d:a", "subjects", {"subjectPrefix": ":.d:a"}),
        (
            "GET",
            "/contexts/c/schemas?latestOnly=true",
            "schemas",
            {"latestOnly": "true", "subjectPrefix": ":.c:"},
        ),
        ("GET", "/contexts/c/schemas/ids/1", "schemas/ids/1", {"subject": ":.c:"}),
        (
            "GET",
            "/contexts/c/schemas/ids/1/subjects?subject=s",
            "schemas/ids/1/subjects",
            {"subject": ":.c:s"},
        ),
        ("GET", "/contexts/c/config", "config/:.c:", {}),
        ("PUT", "/contexts/c/mode", "mode/:.c:", {}),
        ("GET", "/contexts/c/config/s", "config/:.c:s", {}),
        ("GET", "/contexts/c/mode/s", "mode/:.c:s", {}),
        ("POST", "/contexts/c/associations", "associations", {"context": ":.c:"}),
        ("POST", "/contexts/c/associations:batchMutate", "associations:batchMutate", {"context": ":.c:"}),
        ("GET", "/contexts/c/associations/resources/r", "associations/resources/r", {}),
        ("DELETE", "/contexts/c", "contexts/:.c:", {}),
        ("DELETE", "/contexts/.", "", {}),
        ("GET", "/contexts/:.:", "contexts", {}),
        ("GET", "/contexts/./subjects", "subjects", {"subjectPrefix": ""}),
        ("GET", "/contexts/c/schemas/guids/x", "schemas/guids/x", {}),
        ("GET", "/contexts/c/schemas/types", "schemas/types", {}),
        ("GET", "/contexts/./subjects/s", "subjects/s", {}),
        ("GET", "/contexts/:.:/config", "config", {}),
    ],
)
def test_contexts_are_taken_off_the_path(method: str, url: str, path: str, query: dict[str, str]) -> None:
    assert rewritten(method, url) == (path, query)


@pytest.mark.parametrize("name", ["a:b", ":.a:b:", ":a:"])
def test_a_colon_in_the_name_of_a_context_is_400(name: str) -> None:
    with pytest.raises(RegistryError) as caught:
        rewritten("GET", f"/contexts/{name}/subjects")
    assert caught.value.code == 400
