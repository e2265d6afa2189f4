"""The setting for headers of every answer: valid values, and the messages for invalid ones."""

from __future__ import annotations

import pytest

from registry.api.browsers import ResponseHeaders
from registry.base.config.loading import SettingsError, load
from registry.base.config.setting_types import HeaderRule, NotAllowed, parse_header_rules

HEADERS = [(b"cache-control", b"no-store"), (b"x-frame-options", b"DENY")]


@pytest.mark.parametrize(
    ("config", "rules"),
    [
        ("", []),
        (" , ", []),
        ("set A:b", [("set", "A", "b")]),
        ("SET  A : b ", [("set", "A", "b")]),
        ("add X-Colon:a:b:c, setdate Expires:0", [("add", "X-Colon", "a:b:c"), ("setDate", "Expires", "0")]),
        (
            '"set X-Two:DENY, SAMEORIGIN", add B:1; mode=block',
            [("set", "X-Two", "DENY, SAMEORIGIN"), ("add", "B", "1; mode=block")],
        ),
        ("addDate D:-5", [("addDate", "D", "-5")]),
        ("set A:", [("set", "A", "")]),
    ],
)
def test_rules_are_read(config: str, rules: list[tuple[str, str, str]]) -> None:
    assert parse_header_rules(config) == tuple(HeaderRule(*each) for each in rules)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            "no-store",
            'Invalid format of header config "no-store". Expected: "[ation] [header name]:[header value]"',
        ),
        (
            "badaction A:b",
            'Invalid header config action: "badaction". '
            'The action need be one of ["set", "add", "setDate", "addDate"]',
        ),
        (
            "set X-A",
            'Invalid format of header name and header value pair "X-A". '
            'Expected: "[header name]:[header value]"',
        ),
        ("set X A:b", 'Invalid header name "X A". The "[header name]" cannot contain whitespace'),
        ("set A(:b", 'Invalid header "A(": it holds a character that no header can have'),
        ("set A:b\r\nEvil: yes", 'Invalid header "A": it holds a character that no header can have'),
        ("setDate A:soon", 'Invalid value of header "A": setDate takes milliseconds from now'),
        ('set A:"b', "Invalid format of header config 'set A:\"b': a double quote is not closed"),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_the_released_server(config: str, message: str) -> None:
    with pytest.raises(NotAllowed) as caught:
        parse_header_rules(config)
    assert str(caught.value) == message
    with pytest.raises(SettingsError) as refused:
        load({"response_http_headers_config": config})
    assert message in refused.value.problems[0]


def test_names_keep_their_case_and_no_header_is_sent_twice() -> None:
    extra = ResponseHeaders([("set", "Cache-Control", "max-age=1"), ("add", "X-Frame-Options", "SAMEORIGIN")])
    assert extra.apply(HEADERS) == [(b"Cache-Control", b"max-age=1"), (b"X-Frame-Options", b"SAMEORIGIN")]
    assert extra.constant


def test_the_operator_may_add_one_header_several_times() -> None:
    rules = [("set", "Link", "</a>"), ("add", "LINK", "</b>"), ("add", "X-A", "1"), ("add", "X-A", "2")]
    assert ResponseHeaders(rules).apply([(b"link", b"</ours>")]) == [
        (b"Link", b"</a>"),
        (b"LINK", b"</b>"),
        (b"X-A", b"1"),
        (b"X-A", b"2"),
    ]


def test_add_leaves_alone_what_describes_the_answer_and_the_connection() -> None:
    names = ("Content-Type", "ETag", "Vary", "Date", "Content-Length", "Connection")
    headers = [(b"content-type", b"text/plain"), (b"etag", b"1"), (b"vary", b"origin"), (b"vary", b"accept")]
    assert ResponseHeaders([("add", name, "x") for name in names]).apply(headers) == [
        (b"content-type", b"text/plain"),
        (b"etag", b"1"),
        (b"Vary", b"origin, accept, x"),
    ]


def test_dates_and_headers_of_single_answers_are_not_prepared_in_advance() -> None:
    dated = ResponseHeaders([("setDate", "Expires", "0")])
    assert not dated.constant
    ((name, value),) = dated.apply([(b"expires", b"never")])
    assert name == b"Expires"
    assert value.endswith(b" GMT")
    assert not ResponseHeaders([("set", "ETag", "x")]).constant
