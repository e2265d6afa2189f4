"""The settings of Karapace (``KARAPACE_…``), and their counterparts here."""

from __future__ import annotations

from .mapping import (
    Convert,
    Given,
    Ours,
    Refused,
    Registry,
    brokers,
    conversion,
    is_on,
    milliseconds,
    same,
    without,
    word,
)

_CONSUMER = "Registrar's client of Kafka needs no such setting"
_PROXY = "there is no REST proxy; run Karapace's as well"
_PROXY_ONLY = "belongs to Karapace's REST proxy"


def _protocol(given: Given) -> str:
    return given.get("security_protocol", "PLAINTEXT").upper()


def _kafka(value: str, given: Given) -> Ours:
    return {"kafka": brokers(value, _protocol(given), "security_protocol")}


def _listener(value: str, given: Given) -> Ours:
    scheme = "https" if given.get("server_tls_certfile") else "http"
    host = given.get("host") or "127.0.0.1"
    host = f"[{host}]" if ":" in host else host
    return {"listeners": f"{scheme}://{host}:{given.get('port') or '8081'}"}


def _advertise(value: str, given: Given) -> Ours:
    host = given.get("advertised_hostname")
    if not host:
        return {}
    host = f"[{host}]" if ":" in host else host
    port = given.get("advertised_port") or given.get("port") or "8081"
    return {"advertise": f"{given.get('advertised_protocol') or 'http'}://{host}:{port}"}


def _with_tls(ours: str) -> Convert:
    return lambda value, given: {ours: value} if _protocol(given).endswith("SSL") else {}


def _with_sasl(ours: str) -> Convert:
    return lambda value, given: {ours: value} if _protocol(given).startswith("SASL") else {}


def _certificate(value: str, given: Given) -> Ours:
    return {**_listener(value, given), "tls_certificate": value}


def _client_auth(given: Given) -> bool:
    return given.get("server_tls_client_auth", "none").lower() != "none"


def _client_ca(value: str, given: Given) -> Ours:
    return {"tls_client_ca": value} if _client_auth(given) else {}


def _check_name(value: str, given: Given) -> Ours:
    if not _protocol(given).endswith("SSL"):
        return {}
    return {"kafka_ssl_endpoint_identification_algorithm": "https" if is_on(value) else ""}


def _with_tokens(ours: str) -> Convert:
    def convert(value: str, given: Given) -> Ours:
        return {ours: value} if is_on(given.get("sasl_oauthbearer_authorization_enabled")) else {}

    return convert


def _tokens(value: str, given: Given) -> Ours:
    if is_on(value) and not given.get("sasl_oauthbearer_jwks_endpoint_url"):
        raise Refused("asks for bearer tokens, but no keys are named: set jwt_jwks", "jwt_jwks")
    return {}


def _method_roles(value: str, given: Given) -> Ours:
    if is_on(given.get("sasl_oauthbearer_authorization_enabled")):
        raise Refused(
            "admits only some roles: write who may do what into a file of rules, and set rules", "rules"
        )
    return {}


def _token_provider(value: str, given: Given) -> Ours:
    if not _protocol(given).startswith("SASL"):
        return {}
    raise Refused(
        "names a Python class for tokens: set kafka_sasl_oauthbearer_token_endpoint_url, …_client_id and "
        "…_client_secret",
        "kafka_sasl_oauthbearer_token_endpoint_url",
    )


def _revocations(value: str, given: Given) -> Ours:
    raise Refused("asks for a list of revoked certificates, which is not checked here: remove it")


_LEVELS = {
    "debug": "debug", "info": "info", "warning": "warning", "warn": "warning", "error": "error",
    "critical": "error", "fatal": "error", "notset": "debug",
}  # fmt: skip
_ROWS = (
    conversion("bootstrap_uri", "kafka", "the brokers of `security_protocol`", _kafka),
    same("topic_name", "topic"),
    same("replication_factor", "replication_factor"),
    same("group_id", "group"),
    same("client_id", "kafka_client_id"),
    same("master_eligibility", "eligible"),
    conversion("session_timeout_ms", "session_timeout_s", "in seconds", milliseconds("session_timeout_s")),
    same("compatibility", "compatibility"),
    conversion("host", "listeners", "with `port`", _listener),
    conversion("port", "listeners", "with `host`", _listener),
    *(
        conversion(f"advertised_{part}", "advertise", "together", _advertise)
        for part in ("hostname", "port", "protocol")
    ),
    conversion("server_tls_certfile", ("tls_certificate", "listeners"), "and https", _certificate),
    same("server_tls_keyfile", "tls_key"),
    conversion("server_tls_cafile", "tls_client_ca", "with `server_tls_client_auth`", _client_ca),
    conversion(
        "server_tls_client_auth", "tls_client_auth", "`optional` is `wanted`",
        word("tls_client_auth", {"none": None, "optional": "wanted", "required": "required"}),
    ),
    conversion(
        "registry_authfile", ("users", "rules"), "the same file",
        lambda value, _: {"users": value, "rules": value},
    ),
    conversion("sasl_oauthbearer_authorization_enabled", (), "turns the next ones on", _tokens),
    *(
        conversion(f"sasl_oauthbearer_{name}", ours, "the same", _with_tokens(ours))
        for name, ours in (
            ("jwks_endpoint_url", "jwt_jwks"),
            ("expected_issuer", "jwt_issuer"),
            ("expected_audience", "jwt_audience"),
            ("sub_claim_name", "jwt_principal_claim"),
            ("roles_claim_path", "jwt_groups_claim"),
        )
    ),
    conversion("sasl_oauthbearer_method_roles", (), "refused until `rules` is set", _method_roles),
    without("sasl_oauthbearer_skip_auth_paths", "`open_paths` says what needs no authentication"),
    without("sasl_oauthbearer_client_id", "`jwt_groups_claim` is the whole path"),
    same("security_protocol", "kafka_security_protocol"),
    conversion("sasl_mechanism", "kafka_sasl_mechanism", "the same", _with_sasl("kafka_sasl_mechanism")),
    conversion("sasl_plain_username", "kafka_sasl_username", "the same", _with_sasl("kafka_sasl_username")),
    conversion("sasl_plain_password", "kafka_sasl_password", "the same", _with_sasl("kafka_sasl_password")),
    *(
        conversion(name, (), "refused with SASL until `kafka_sasl_oauthbearer_token_endpoint_url` is set",
                  _token_provider)
        for name in ("sasl_oauth_token", "sasl_oauth_token_provider_class")
    ),
    *(
        conversion(f"ssl_{name}", ours, "the same", _with_tls(ours))
        for name, ours in (
            ("cafile", "kafka_ssl_ca_location"),
            ("certfile", "kafka_ssl_certificate_location"),
            ("keyfile", "kafka_ssl_key_location"),
            ("password", "kafka_ssl_key_password"),
        )
    ),
    conversion(
        "ssl_check_hostname", "kafka_ssl_endpoint_identification_algorithm", "true is `https`", _check_name
    ),
    conversion("ssl_crlfile", (), "refused", _revocations),
    without("ssl_ciphers", "OpenSSL's defaults are safe"),
    conversion("log_level", "log_level", "`CRITICAL` is `error`", word("log_level", _LEVELS)),
    without("log_format", "`log_format` is console or json here"),
    without("log_handler", "log lines go to standard error"),
    without("access_logs_debug", "`access_log` logs requests"),
    without("access_log_class", "`access_log` logs requests"),
    same("http_request_max_size", "body_bytes_max"),
    without("karapace_registry", "Registrar is a registry"),
    without("registry", "Registrar is a registry"),
    without("karapace_rest", _PROXY),
    without("rest", _PROXY),
    *(
        without(name, _PROXY_ONLY)
        for name in (
            "rest_*", "registry_scheme", "registry_host", "registry_port", "registry_user",
            "registry_password", "registry_ca", "sasl_bootstrap_uri", "name_strategy*", "producer_*",
            "consumer_*", "fetch_min_bytes",
        )
    ),
    *(
        without(name, _CONSUMER)
        for name in ("metadata_max_age_ms", "admin_metadata_max_age", "connections_max_idle_ms",
                     "kafka_retriable_errors_silenced")
    ),
    without("kafka_schema_reader_strict_mode", "records that make no sense are listed in `/quarantine`"),
    without("force_key_correction", "keys are read in any order of members"),
    without("master_election_strategy", "the primary stays while it is a member of the group"),
    without("waiting_time_before_acting_as_master_ms", "a new primary fences the former one instead"),
    without("protobuf_runtime_directory", "Protobuf schemas are parsed without files"),
    without("use_protobuf_formatter", "texts are served as they are stored"),
    *(
        without(name, "`/metrics` serves metrics for Prometheus")
        for name in ("statsd_host", "statsd_port", "tags*", "telemetry*")
    ),
    without("sentry*", "errors are logged"),
)  # fmt: skip

KARAPACE = Registry("Karapace", "KARAPACE_", _ROWS, brokers="bootstrap_uri", separator="_")
