from __future__ import annotations

from collections.abc import Mapping

import pytest

from registry.host.tracing.export import is_wanted, obstacle

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
TRACES_ENDPOINT = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://collector/v1/traces"}


@pytest.mark.parametrize(
    ("setting", "environment", "wanted"),
    [
        ("auto", {}, False),
        ("auto", ENDPOINT, True),
        ("auto", TRACES_ENDPOINT, True),
        ("auto", {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ("auto", ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"}, False),
        ("auto", ENDPOINT | {"OTEL_SDK_DISABLED": "True"}, False),
        ("otlp", {}, True),
        ("otlp", {"OTEL_SDK_DISABLED": "true"}, False),
        ("off", ENDPOINT, False),
    ],
)
def test_traces_are_exported_if_the_setting_or_the_environment_wants_them(
    setting: str, environment: Mapping[str, str], wanted: bool
) -> None:
    assert is_wanted(setting, environment) == wanted


@pytest.mark.parametrize(
    "environment",
    [{}, ENDPOINT, TRACES_ENDPOINT, {"OTEL_TRACES_EXPORTER": "otlp"}, {"OTEL_EXPORTER_OTLP_PROTOCOL": ""}],
)
def test_nothing_prevents_traces_to_a_url(environment: Mapping[str, str]) -> None:
    assert obstacle(environment) == ""


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL = grpc is not supported"),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL = grpc is not supported",
        ),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER = zipkin is not supported"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}, "collector:4318 is not a URL"),
    ],
)
def test_what_cannot_be_exported_is_named(environment: Mapping[str, str], message: str) -> None:
    assert message in obstacle(environment)
