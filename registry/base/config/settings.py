"""The table of settings, each with its default, allowed values and help text.

The names in the TOML file, in the environment (``REGISTRAR_`` and the name in capitals) and of the flags
(``--`` and the name with dashes) follow from it, as do the help, the example file and ``docs/settings.md``.
"""

from __future__ import annotations

import re
import socket
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from registry.base.processes.cores import usable_cores

from .addresses import (
    ADDRESS,
    ANY_HOST,
    DESTINATIONS,
    ENDPOINT_URL,
    EXTENSIONS,
    FILE_OR_URL,
    HOSTS,
    LISTENERS,
    NETWORKS,
    ORIGINS,
    PEER_ADDRESS,
    REACHED_ADDRESS,
    SERVERS,
    URL,
    ZOOKEEPER,
    ListenAddress,
    has_secret,
    is_http_url,
    listen_address,
    read_url,
    split_address,
)
from .setting_types import (
    FILE,
    FOLDER,
    HEADER_CONFIG,
    SCHEDULE,
    SWITCH,
    Kind,
    choice,
    one_of_numbers,
    quote_toml,
    seconds,
    secret,
    secrets,
    size,
    text,
    whole,
)

PREFIX = "REGISTRAR_"
# A secret NAME may also be given in a file, which the setting NAME_file names.
SECRET_FILE = "_file"  # noqa: S105 (the end of a name)
_LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)

_SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI")
_NAME = r"(?!\.\.?$)[A-Za-z0-9._-]{1,249}"
_NAME_ALLOWED = "1 to 249 letters, digits, dots, dashes and underscores"
_PASSWORD = secret(1, "text; check-config never prints it")
PEER_SECRET = secrets(
    16, 2, "at least 16 characters, or two such lines, or empty; check-config never prints it"
)
_WEBHOOKS_SECRET = secrets(
    32, 2, "at least 32 characters, or two such lines, or empty; check-config never prints it"
)
_SNAPSHOTS_KEY = secret(32, "at least 32 characters, or empty; check-config never prints it")
_ENCODER_SECRET = secret(1, "text, or empty; check-config never prints it")
_ZOOKEEPER_AUTH = secrets(3, 2, "USER:PASSWORD, or two such lines, or empty; check-config never prints it")
_WORD = text(r"[^\0\s]{0,1000}", "text without spaces, or empty")
_WORDS = text(r"[^\0\r\n]{0,4000}", "text, or empty")
_CLAIM = text(r"[^\0\s]{1,255}", "the claim's name, or a path with dots such as realm_access.roles")
_NAME_CHECK = Kind(
    lambda value: choice("https", "").read("" if value == "none" else value),
    "https, or empty for no check",
    quote_toml,
)
_ONE_LINE = re.compile(r"[^\0\r\n]{0,2000}")


def _read_location(value: object) -> str:
    if not isinstance(value, str) or not _ONE_LINE.fullmatch(value) or has_secret(value):
        raise ValueError(value)
    return value


_LOCATION = Kind(
    _read_location,
    "the path of a folder, or a URI such as s3://bucket/registrar or hdfs://host:9000/registrar, "
    "without credentials; or empty",
    quote_toml,
)
_READERS_MAX = 256
_AUDIT_LOG = text(
    rf"(?!kafka:)[^\0\r\n]{{0,4096}}|kafka:{_NAME}", "the path of a file, stdout, kafka:TOPIC, or empty"
)
_DAY = 86_400
_MIB = 2**20
_GIB = 2**30


def _few_readers() -> int:
    return min(4, usable_cores())


def _number_of_readers(value: object) -> int:
    if value == "auto":
        return min(_READERS_MAX, usable_cores())
    number: int = whole(0, _READERS_MAX).read(value)  # loading makes 0 a 1 and says so
    return number


_READERS = Kind(_number_of_readers, f"a whole number from 1 to {_READERS_MAX}, or auto: one for each core")


def _setting(default: Any, kind: Kind, group: str, does: str, shown: str | None = None) -> Any:
    """Return a field; ``shown`` replaces a default that depends on the machine in the docs."""
    metadata = {"kind": kind, "group": group, "does": does, "shown": shown}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata, repr=not kind.secret)


def _file(does: str, group: str = "security") -> Any:
    return _setting("", FILE, group, does)


def _secret_file(name: str, group: str = "security") -> Any:
    return _file(f"File that contains {name}; a trailing line break is ignored", group)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings. Names end in their unit; sizes are bytes."""

    listen: str = _setting("127.0.0.1:8081", ADDRESS, "where", "Address and port of the HTTP API")
    listeners: str = _setting(
        "",
        LISTENERS,
        "where",
        "Addresses of the HTTP API, each with http or https; replaces listen",
    )
    data: Path = _setting(
        Path("./data"), FOLDER, "where", "Data folder; holds the store and, without Kafka, the log"
    )
    readers: int = _setting(
        _few_readers,
        _READERS,
        "where",
        "Number of processes that serve HTTP",
        "number of cores, at most 4",
    )
    cluster_id: str = _setting(
        "registrar",
        text(r"[A-Za-z0-9._-]{1,255}", "1 to 255 letters, digits, dots, dashes and underscores"),
        "where",
        "Id of this registry, as returned by /v1/metadata/id",
    )

    kafka: str = _setting(
        "",
        SERVERS,
        "cluster",
        "Kafka brokers that hold the log; empty for a single node with the log in its data folder",
    )
    topic: str = _setting("_schemas", text(_NAME, _NAME_ALLOWED), "cluster", "Kafka topic of the log")
    replication_factor: int = _setting(
        3,
        whole(1, 100),
        "cluster",
        "Replication factor of the topic when it is created; at most the number of brokers",
    )
    group: str = _setting(
        "schema-registry",
        text(_NAME, _NAME_ALLOWED),
        "cluster",
        "Kafka group in which the nodes elect the primary",
    )
    election: str = _setting(
        "kafka",
        choice("kafka", "zookeeper", "static"),
        "cluster",
        "How the primary is elected: by a Kafka group, by ZooKeeper, or statically (by the setting primary)",
    )
    zookeeper: str = _setting(
        "", ZOOKEEPER, "cluster", "ZooKeeper servers with an optional path, for election = zookeeper"
    )
    primary: str = _setting(
        "",
        URL,
        "cluster",
        "Advertised URL of the primary, for election = static; empty if this node is the primary",
    )
    eligible: bool = _setting(True, SWITCH, "cluster", "Allow this node to become the primary")
    advertise: str = _setting(
        "", URL, "cluster", "URL at which other nodes reach this one; empty to derive it from listen"
    )
    peer_listen: str = _setting(
        "",
        PEER_ADDRESS,
        "cluster",
        "Address for writes forwarded by other nodes; empty for the host of listen and a free port",
    )
    peer_advertise: str = _setting(
        "",
        REACHED_ADDRESS,
        "cluster",
        "Address at which other nodes reach peer_listen, if it differs, for example with mapped ports",
    )
    session_timeout_s: float = _setting(
        6.0,
        seconds(0.5, 1800),
        "cluster",
        "Time without a heartbeat after which the primary is replaced; brokers refuse less than 6 by default",
    )
    fencing: str = _setting(
        "on",
        choice("on", "off"),
        "cluster",
        "Let the brokers reject writes of a former primary; turn off only if they deny InitProducerId",
    )
    reads: str = _setting(
        "confirmed",
        choice("confirmed", "local"),
        "cluster",
        "confirmed: check the log's end before serving data that can change; local: serve from the store",
    )
    confirm_timeout_s: float = _setting(
        0.5,
        seconds(0.01, 60),
        "cluster",
        "Timeout for confirming a read; after it, hits are served with a Warning header and misses get 503",
    )
    end_age_margin_s: float = _setting(
        3600.0,
        seconds(0, 30 * _DAY),
        "cluster",
        "Safety margin: a store is rebuilt if it was offline for almost as long as the topic keeps deletions",
    )
    allow_delete_policy: bool = _setting(
        False, SWITCH, "cluster", "Accept a topic from which Kafka deletes old records; this loses schemas"
    )
    peer_secret: str = _setting(
        "",
        PEER_SECRET,
        "security",
        "Shared secret with which nodes authenticate each other; the same on all nodes. To change it, "
        "give the new and the old one, each on its own line",
    )
    peer_secret_file: str = _file("File that contains peer_secret; reloaded when it changes")
    zookeeper_auth: str = _setting(
        "",
        _ZOOKEEPER_AUTH,
        "security",
        "User and password for ZooKeeper (digest); restricts the registry's znodes to this user. To change "
        "the password, give the new and the old one, each on its own line",
    )
    zookeeper_auth_file: str = _secret_file("zookeeper_auth")
    zookeeper_tls: bool = _setting(False, SWITCH, "security", "Use TLS for connections to ZooKeeper")
    zookeeper_tls_ca: str = _file(
        "CA certificates that sign the ZooKeeper servers' certificates, PEM; empty for the system's"
    )
    zookeeper_tls_certificate: str = _file("Client certificate for ZooKeeper, PEM")
    zookeeper_tls_key: str = _file("Private key of that client certificate, PEM")
    peer_tls_certificate: str = _file("Certificate of this node for connections between nodes, PEM")
    peer_tls_key: str = _file("Private key of that certificate, PEM")
    peer_tls_ca: str = _file("CA certificates that sign the other nodes' certificates, PEM")
    kafka_security_protocol: str = _setting(
        "PLAINTEXT",
        choice("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", fold=str.upper),
        "security",
        "Protocol for connections to Kafka (security.protocol)",
    )
    kafka_sasl_mechanism: str = _setting(
        "",
        choice(*_SASL_MECHANISMS, "", fold=str.upper),
        "security",
        "SASL mechanism for connections to Kafka (sasl.mechanism)",
    )
    kafka_sasl_username: str = _setting(
        "", text(r"[^\0]{0,255}", "at most 255 characters"), "security", "User name at the brokers, for SASL"
    )
    kafka_sasl_password: str = _setting("", _PASSWORD, "security", "Password at the brokers, for SASL")
    kafka_sasl_password_file: str = _secret_file("kafka_sasl_password")
    kafka_sasl_oauthbearer_token_endpoint_url: str = _setting(
        "", ENDPOINT_URL, "security", "Token endpoint for OAUTHBEARER, asked with the client's credentials"
    )
    kafka_sasl_oauthbearer_client_id: str = _setting(
        "", text(r"[^\0:]{0,255}", "at most 255 characters, no colon"), "security",
        "Client id at the token endpoint",
    )  # fmt: skip
    kafka_sasl_oauthbearer_client_secret: str = _setting(
        "", _PASSWORD, "security", "Client secret at the token endpoint"
    )
    kafka_sasl_oauthbearer_client_secret_file: str = _secret_file("kafka_sasl_oauthbearer_client_secret")
    kafka_sasl_oauthbearer_scope: str = _setting(
        "", text(r"[^\0\r\n]{0,1000}", "at most 1000 characters"), "security",
        "Scope of the token; empty for the endpoint's default",
    )  # fmt: skip
    kafka_sasl_oauthbearer_extensions: str = _setting(
        "", EXTENSIONS, "security", "SASL extensions that are sent to the broker with the token"
    )
    kafka_https_ca_location: str = _file(
        "CA certificates that sign the token endpoint's certificate, PEM; empty for the system's"
    )
    kafka_sasl_aws_region: str = _setting(
        "", text(r"[a-z0-9-]{0,64}", "the name of an AWS region, or empty"), "security",
        "AWS region of the brokers, for AWS_MSK_IAM; empty for that of the environment",
    )  # fmt: skip
    kafka_sasl_kerberos_service_name: str = _setting(
        "kafka", text(r"[A-Za-z0-9._-]{1,255}", "a name"), "security",
        "Kerberos service name of the brokers, for GSSAPI",
    )  # fmt: skip
    kafka_ssl_ca_location: str = _file(
        "CA certificates that sign the brokers' certificates, PEM; empty for the system's"
    )
    kafka_ssl_certificate_location: str = _file("Client certificate for the brokers, PEM")
    kafka_ssl_key_location: str = _file("Private key of that client certificate, PEM")
    kafka_ssl_key_password: str = _setting("", _PASSWORD, "security", "Password of that private key")
    kafka_ssl_key_password_file: str = _secret_file("kafka_ssl_key_password")
    kafka_ssl_endpoint_identification_algorithm: str = _setting(
        "https", _NAME_CHECK, "security", "Check that a broker's certificate names its host"
    )
    kafka_client_id: str = _setting(
        "registrar",
        text(_NAME, _NAME_ALLOWED),
        "security",
        "Client id shown in the brokers' logs and used for quotas",
    )

    tls_certificate: str = _file("Certificate chain of the https listeners, PEM", "tls")
    tls_key: str = _file("Private key of that certificate, PEM", "tls")
    tls_key_password: str = _setting("", _PASSWORD, "tls", "Password of that private key")
    tls_key_password_file: str = _secret_file("tls_key_password", "tls")
    tls_keystore: str = _file("Certificate and key in one PKCS12 file; replaces the PEM files", "tls")
    tls_keystore_password: str = _setting("", _PASSWORD, "tls", "Password of that PKCS12 file")
    tls_keystore_password_file: str = _secret_file("tls_keystore_password", "tls")
    tls_client_ca: str = _file("CA certificates that sign the clients' certificates, PEM", "tls")
    tls_client_auth: str = _setting(
        "none",
        choice("none", "wanted", "required"),
        "tls",
        "Client certificates: not requested, verified if presented, or required",
    )
    tls_principal_rules: str = _setting(
        "DEFAULT",
        text(r"[^\0\r\n]{1,4000}", "RULE:pattern/replacement/[LU] and DEFAULT, separated by commas"),
        "tls",
        "Rules that map a certificate's subject to a principal name, as Kafka's ssl.principal.mapping.rules",
    )

    users: str = _file("File of users and password hashes, for HTTP Basic authentication", "access")
    jwt_jwks: str = _setting(
        "",
        FILE_OR_URL,
        "access",
        "Public keys (JWKS) of the issuer of bearer tokens: a file, or the issuer's URL",
    )
    jwt_issuer: str = _setting("", _WORD, "access", "Issuer that tokens must name (iss)")
    jwt_audience: str = _setting(
        "", _WORDS, "access", "Audiences, separated by commas; tokens must name at least one (aud)"
    )
    jwt_principal_claim: str = _setting("sub", _CLAIM, "access", "Claim of tokens that names the principal")
    jwt_groups_claim: str = _setting(
        "groups", _CLAIM, "access", "Claim of tokens that names the principal's groups"
    )
    jwt_clock_skew_s: float = _setting(
        30.0, seconds(0, 600), "access", "Tolerated difference between this clock and the issuer's"
    )
    console_oidc_client_id: str = _setting(
        "",
        _WORD,
        "access",
        "Client id of the console at an OpenID Connect issuer, as a public client; empty to disable that "
        "sign-in",
    )
    console_oidc_issuer: str = _setting(
        "", ENDPOINT_URL, "access", "URL of that issuer; empty for jwt_issuer"
    )
    console_oidc_scopes: str = _setting(
        "openid", _WORDS, "access", "Scopes that the console requests, separated by spaces"
    )
    console_oidc_audience: str = _setting(
        "", _WORD, "access", "Audience that the console requests, for issuers that need one (Auth0)"
    )
    console_oidc_token: str = _setting(
        "access",
        choice("access", "id"),
        "access",
        "Token that the console sends: access, or id for issuers whose access tokens name no audience "
        "(Cognito)",
    )
    console_oidc_origins: str = _setting(
        "",
        ORIGINS,
        "access",
        "Additional origins that the console may call, if the issuer's token endpoint has another origin",
    )
    console_session_s: float = _setting(
        900.0,
        seconds(60, 12 * 3600),
        "access",
        "Time after which users of the console have to sign in again, unless a page of theirs is open",
    )
    rules: str = _file(
        "TOML file of access rules; empty to permit everything to everyone",
        "access",
    )
    open_paths: bool = _setting(
        True, SWITCH, "access", "Answer health checks, /metrics and /openapi.json without authentication"
    )
    trusted_proxies: str = _setting(
        "",
        NETWORKS,
        "access",
        "Proxies whose X-Forwarded-For header is trusted; failed logins are throttled by client address",
    )

    compatibility: str = _setting(
        "BACKWARD",
        choice(*_LEVELS, fold=str.upper),
        "rules",
        "Default compatibility level, where none is set through the API",
    )
    incompatible_error_code: int = _setting(
        40901,
        one_of_numbers(40901, 409),
        "rules",
        "error_code of an incompatible registration; 409 for clients that know only the older code",
    )
    keep_rule_sets: bool = _setting(
        True,
        SWITCH,
        "rules",
        "Store the rule sets that clients send; Confluent's community edition drops them silently",
    )
    validate_new_schemas: bool = _setting(
        True, SWITCH, "rules", "Validate new schemas strictly (for Avro: names and defaults)"
    )
    validate_fields: bool = _setting(False, SWITCH, "rules", "Reject field names that begin with $$")
    mode_mutability: bool = _setting(
        True, SWITCH, "rules", "Allow clients to change the mode through the API"
    )
    reject_empty_subject: bool = _setting(
        False, SWITCH, "rules", "Reject registrations and associations under an empty subject or `*`"
    )
    strict_references: bool = _setting(
        False,
        SWITCH,
        "rules",
        "Refuse schemas that use two versions of one reference's name, directly or not",
    )
    audit_log: str = _setting(
        "",
        _AUDIT_LOG,
        "access",
        "Destination of audit entries, one JSON line per write or refusal: a file, stdout, or kafka:TOPIC",
    )
    audit_required: bool = _setting(
        False,
        SWITCH,
        "access",
        "Answer a write only after its audit entry is written; a full or hanging disk then stops writes",
    )
    record_principals: bool = _setting(
        True,
        SWITCH,
        "access",
        "Store the requesting principal with each record, for the change feed, histories and webhooks",
    )
    policies: str = _file(
        "TOML file of policies: subject creation, lint rules, limits; reloaded when it changes", "rules"
    )
    confluent_version: str = _setting(
        "8.4",
        choice("8.4", "8.3"),
        "rules",
        "Version of Confluent's server whose rules for associations apply: 8.3 as in 8.2.2 to 8.3.1",
    )

    deletion_guard: str = _setting(
        "off",
        choice("off", "warn", "refuse"),
        "rules",
        "What happens to permanent deletions of versions that messages still use, or that no recent complete "
        "census has counted: nothing, a Warning header, or 409; all nodes need the same value",
    )
    census_age_max_s: float = _setting(
        7 * _DAY,
        seconds(60, 366 * _DAY),
        "rules",
        "Age at which a census is too old for `deletion_guard`",
    )
    asks_keep_days: int = _setting(
        30,
        whole(0, 400),
        "rules",
        "Days for which each node keeps who has asked for which schemas: principals, or addresses without "
        "authentication, and user agents; 0: nothing is counted",
    )
    metadata_encoder_secret: str = _setting(
        "",
        _ENCODER_SECRET,
        "encoder",
        "Secret that encrypts sensitive metadata in the log (metadata.encoder.secret); the same on all nodes",
    )
    metadata_encoder_secret_file: str = _secret_file("metadata_encoder_secret", "encoder")
    metadata_encoder_old_secret: str = _setting(
        "",
        _ENCODER_SECRET,
        "encoder",
        "Previous secret, during a change; the primary adds a key and rewrites the keyset with the new "
        "secret",
    )
    metadata_encoder_old_secret_file: str = _secret_file("metadata_encoder_old_secret", "encoder")
    metadata_encoder_topic: str = _setting(
        "_schema_encoders",
        text(_NAME, _NAME_ALLOWED),
        "encoder",
        "Kafka topic of the keyset; without Kafka the keyset is a file in the data folder",
    )

    webhooks_secret: str = _setting(
        "",
        _WEBHOOKS_SECRET,
        "webhooks",
        "Secret from which each webhook's secret is derived; the same on all nodes. Empty to disable "
        "webhooks. To change it, give the new and the old one, each on its own line",
    )
    webhooks_secret_file: str = _secret_file("webhooks_secret", "webhooks")
    webhooks_allow: str = _setting(
        "",
        DESTINATIONS,
        "webhooks",
        "Receivers with private addresses that webhooks may reach",
    )
    webhooks_http: bool = _setting(False, SWITCH, "webhooks", "Allow receivers without TLS (http)")
    webhooks_redirects: int = _setting(
        0,
        whole(0, 5),
        "webhooks",
        "Maximum number of redirects (307, 308) to follow; the rules for receivers apply to each target",
    )
    webhooks_ca_file: str = _file(
        "CA certificates that sign receivers' certificates, PEM; empty for the system's", "webhooks"
    )
    webhooks_timeout_s: float = _setting(15.0, seconds(0.1, 60), "webhooks", "Timeout of a delivery")
    webhooks_retry_max_s: float = _setting(
        300.0, seconds(0.1, 3600), "webhooks", "Maximum delay before a failed delivery is retried"
    )

    body_bytes_max: int = _setting(
        5 * _MIB, size(1024, _GIB), "limits", "Maximum size of a request body; larger ones get 413"
    )
    size_limit_filter_enabled: bool = _setting(
        False,
        SWITCH,
        "limits",
        "Also apply size_limit_filter_max_request_body_size, as Confluent's servers do",
    )
    size_limit_filter_max_request_body_size: int = _setting(
        _MIB, size(1, _GIB), "limits", "Maximum size of a request body if size_limit_filter_enabled is true"
    )
    record_bytes_max: int = _setting(
        5_600_000,
        size(1024, _GIB),
        "limits",
        "Maximum size of a record, for a log without Kafka; larger schemas get error 42209",
    )
    request_timeout_s: float = _setting(
        30.0,
        seconds(0.1, 3600),
        "limits",
        "Time limit for handling a request, from its last byte",
    )
    compatibility_budget_s: float = _setting(
        5.0,
        seconds(0.1, 3600),
        "limits",
        "CPU time that a request may use to compare schemas; beyond it, 422",
    )
    header_timeout_s: float = _setting(
        15.0, seconds(0.1, 3600), "limits", "Time limit for receiving a request's headers"
    )
    body_timeout_s: float = _setting(
        30.0, seconds(0.1, 3600), "limits", "Time limit for receiving a request's body"
    )
    idle_timeout_s: float = _setting(
        75.0, seconds(0.1, 86_400), "limits", "Time after which an idle connection is closed"
    )
    connections_max: int = _setting(
        10_000,
        whole(1, 1_000_000),
        "limits",
        "Maximum number of open connections per HTTP process",
    )
    changes_per_principal_max: int = _setting(
        1_000,
        whole(1, 1_000_000),
        "limits",
        "Maximum number of open /changes requests per HTTP process for one principal, or one address "
        "without authentication; further ones get 429",
    )
    queue_max: int = _setting(
        10_000, whole(1, 1_000_000), "limits", "Maximum number of queued writes; further ones get 503"
    )
    queue_bytes_max: int = _setting(
        256 * _MIB,
        size(_MIB, 64 * _GIB),
        "limits",
        "Maximum size of all queued writes per process; beyond it, large writes get 503",
    )

    store_map_bytes: int = _setting(
        64 * _GIB, size(16 * _MIB, 2**46), "storage", "Maximum size of the store; the file is sparse"
    )
    log_map_bytes: int = _setting(
        64 * _GIB,
        size(16 * _MIB, 2**46),
        "storage",
        "Maximum size of the log, without Kafka; the file is sparse",
    )
    history: bool = _setting(
        True,
        SWITCH,
        "storage",
        "Store the history of every subject, for /subjects/{subject}/history and atOffset",
    )
    search: bool = _setting(
        True,
        SWITCH,
        "storage",
        "Keep a search index next to the store, built in the background, for /search",
    )
    min_compaction_lag_s: float = _setting(
        float(_DAY),
        seconds(0, 10 * 365 * _DAY),
        "storage",
        "Age after which compaction may remove a superseded record, without Kafka",
    )
    tombstone_retention_s: float = _setting(
        7.0 * _DAY,
        seconds(0, 10 * 365 * _DAY),
        "storage",
        "Age after which compaction may remove a tombstone, without Kafka",
    )

    snapshots: str = _setting(
        "",
        _LOCATION,
        "snapshots",
        "Location of snapshots; the same for all nodes and builders. Empty for a folder in data",
    )
    snapshots_key: str = _setting(
        "",
        _SNAPSHOTS_KEY,
        "snapshots",
        "Secret that signs snapshots; the same on all nodes and builders. Unsigned snapshots are then "
        "rejected",
    )
    snapshots_key_file: str = _secret_file("snapshots_key", "snapshots")
    snapshots_old_key: str = _setting(
        "",
        _SNAPSHOTS_KEY,
        "snapshots",
        "Previous secret, during a change of snapshots_key; snapshots signed with it are still accepted",
    )
    snapshots_old_key_file: str = _secret_file("snapshots_old_key", "snapshots")
    snapshots_builder: str = _setting(
        "auto",
        choice("auto", "local", "spark", "none"),
        "snapshots",
        "Engine with which the primary's host builds snapshots: auto is Spark where PySpark and Java "
        "are installed, otherwise local; local is the built-in engine; none leaves builds to separate "
        "builders",
    )
    snapshots_build_timeout_s: float = _setting(
        21_600.0,
        seconds(1, 30 * _DAY),
        "snapshots",
        "Time limit of a build; after it, the build fails and another builder may take the request",
    )
    snapshots_every: str = _setting(
        "",
        SCHEDULE,
        "snapshots",
        "Number of records, or time, after which the primary requests a snapshot; empty for never",
    )
    snapshots_keep: int = _setting(
        3, whole(1, 10_000), "snapshots", "Number of snapshots to keep; older ones are deleted"
    )
    snapshots_deltas: int = _setting(
        8,
        whole(0, 100),
        "snapshots",
        "Maximum number of consecutive delta snapshots, which hold only changes; 0 to disable deltas",
    )
    snapshots_load: str = _setting(
        "on",
        choice("on", "off"),
        "snapshots",
        "Allow a node to start from a snapshot instead of reading the whole log",
    )
    snapshots_load_ahead: int = _setting(
        20_000,
        whole(1, 2**40),
        "snapshots",
        "Load a snapshot only if it is at least this many records ahead of the store",
    )
    snapshots_spark_master: str = _setting(
        "local[*]", text(r"[^\0\s]{1,500}", "a master URL of Spark"), "snapshots", "URL of the Spark master"
    )
    snapshots_spark_start_timeout_s: float = _setting(
        300.0,
        seconds(1, _DAY),
        "snapshots",
        "Time limit for Spark to start its first executor; then the build fails, or auto uses the built-in "
        "engine",
    )
    snapshots_spark_packages: str = _setting(
        "",
        text(r"[^\0\s]{0,2000}", "comma-separated Maven coordinates, or empty"),
        "snapshots",
        "Packages for Spark: another version of its Kafka connector, or formats of files that a census reads",
    )
    snapshots_spark_conf: str = _setting(
        "",
        text(r"[^\0]{0,4000}", "NAME=VALUE pairs separated by spaces, or empty"),
        "snapshots",
        "Additional Spark configuration",
    )

    census_every_s: float = _setting(
        0.0,
        seconds(0, 365 * _DAY),
        "census",
        "Time after which the primary takes a census of the data again; 0 for never. It needs Spark",
    )
    census_topics: str = _setting(
        "*",
        text(r"((!?[^*!,\s]+\*?|\*|)(,|$))*", "NAME,PREFIX*,!NAME,…, or empty"),
        "census",
        "Topics to count: names, prefixes such as orders.*, or * for all, which a complete census needs; "
        "with ! in front: not these",
    )
    census_files: str = _setting(
        "",
        text(r"([A-Za-z][\w.-]*:[^\s#]+#[^\s#]+(\s+|$))*", "FORMAT:PATH#COLUMN …, or empty"),
        "census",
        "Files to count, such as parquet:/lake/orders#value, separated by spaces",
    )
    census_contexts: str = _setting(
        "",
        text(r"([^*,=\s]*\*?=\.[^:,=\s]*(,|$))*", "PATTERN=CONTEXT,…, or empty"),
        "census",
        "Contexts of topics, such as orders-eu.*=.eu; others are inferred from the names of subjects",
    )
    census_keep: int = _setting(
        3, whole(1, 10_000), "census", "Number of censuses to keep; older ones are deleted"
    )

    cache_max_age_s: int = _setting(
        0,
        whole(0, 365 * _DAY),
        "answers",
        "max-age of the Cache-Control header for schemas by id and guid; 0 for no header",
    )
    cors_origins: str = _setting(
        "", ORIGINS, "answers", "Origins whose web pages may call the API from a browser (CORS)"
    )
    response_http_headers_config: str = _setting(
        "",
        HEADER_CONFIG,
        "answers",
        "Headers added to every response, in the syntax of Confluent's setting of this name",
    )
    allowed_hosts: str = _setting(
        "",
        HOSTS,
        "answers",
        "Allowed Host headers, against DNS rebinding; empty allows loopback names on loopback, elsewhere all",
    )
    console: str = _setting("on", choice("on", "off"), "answers", "Serve the console, a web page, at /ui")
    log_level: str = _setting(
        "info", choice("debug", "info", "warning", "error"), "answers", "Lowest level of log lines to print"
    )
    log_format: str = _setting(
        "console",
        choice("console", "json"),
        "answers",
        "Format of log lines: console for people, json for machines",
    )
    access_log: bool = _setting(False, SWITCH, "answers", "Write a log line for every request")
    traces: str = _setting(
        "auto",
        choice("auto", "otlp", "off"),
        "answers",
        "Export a trace of each request by OpenTelemetry: if OTEL_EXPORTER_OTLP_ENDPOINT is set (auto), "
        "always (otlp), or never; needs the extra otel",
    )

    @property
    def addresses(self) -> list[ListenAddress]:
        """The addresses of the HTTP API: ``listeners``, or else ``listen``."""
        if not self.listeners:
            return [ListenAddress("http", *split_address(self.listen))]
        return [listen_address(each) for each in self.listeners.split(",")]

    @property
    def main_address(self) -> ListenAddress:
        """The address to announce to others: the first with http, or else the first."""
        return next((each for each in self.addresses if each.scheme == "http"), self.addresses[0])

    @property
    def https(self) -> bool:
        """True if there is an https listener."""
        return any(each.scheme == "https" for each in self.addresses)

    @property
    def advertised_url(self) -> str:
        """URL at which other nodes reach this one, with its port and without a path."""
        if self.advertise:
            return self.advertise
        main = self.main_address
        return read_url(str(main._replace(host=socket.getfqdn()) if main.host in ANY_HOST else main))

    @property
    def authenticates(self) -> bool:
        """True if clients have to authenticate."""
        return bool(self.users or self.jwt_jwks or self.rules or self.tls_client_auth == "required")

    @property
    def jwt_jwks_is_url(self) -> bool:
        """True if ``jwt_jwks`` is a URL instead of a file."""
        return is_http_url(self.jwt_jwks)

    @property
    def request_bytes_max(self) -> int:
        """Largest request body by all settings together."""
        if not self.size_limit_filter_enabled:
            return self.body_bytes_max
        return min(self.body_bytes_max, self.size_limit_filter_max_request_body_size)

    @property
    def snapshots_location(self) -> str:
        """Location of snapshots: ``snapshots``, or by default a folder in the data folder."""
        return self.snapshots or str(self.data / "snapshots")

    @property
    def peer_address(self) -> tuple[str, int]:
        """Host and port of the peer endpoint; port 0 for a free one."""
        return split_address(self.peer_listen) if self.peer_listen else (self.main_address.host, 0)

    @property
    def zookeeper_hosts(self) -> str:
        """The servers in ``zookeeper``, ``HOST:PORT,…``."""
        return self.zookeeper.partition("/")[0]

    @property
    def zookeeper_chroot(self) -> str:
        """The path in ``zookeeper``, with its slash; empty if there is none."""
        return self.zookeeper[len(self.zookeeper_hosts) :]

    @property
    def transactional_id(self) -> str:
        """Transactional id of the producer that all nodes share: a new claim fences the earlier ones."""
        return f"registrar.{self.group}.{self.topic}"

    @property
    def security(self) -> dict[str, str]:
        """The Kafka client's TLS and SASL settings by Kafka's names, with underscores for their dots."""
        return {kafka.replace(".", "_"): getattr(self, name) for kafka, name in SECURITY.items()}


# The groups of settings, in order, with their titles in the help and in the docs.
GROUP_TITLES = {
    "where": "General",
    "cluster": "Cluster: several nodes on a Kafka topic",
    "security": "Security between nodes and with Kafka",
    "tls": "TLS on the public port",
    "access": "Authentication and authorization",
    "rules": "Rules for schemas",
    "encoder": "Sensitive metadata",
    "limits": "Limits",
    "storage": "Storage",
    "snapshots": "Snapshots",
    "census": "The census of the data",
    "webhooks": "Webhooks",
    "answers": "Responses and log lines",
}

# Confluent's environment variables, used for settings that are given nowhere else.
VARIABLES = {
    "METADATA_ENCODER_SECRET": "metadata_encoder_secret",
    "METADATA_ENCODER_OLD_SECRET": "metadata_encoder_old_secret",
}

# The settings of the Kafka client by Kafka's names.
SECURITY = {
    entry.name.removeprefix("kafka_").replace("_", "."): entry.name
    for entry in fields(Settings)
    if entry.name.startswith("kafka_")
}


class Setting(NamedTuple):
    """One row of the table of settings."""

    name: str
    kind: Kind
    group: str
    does: str
    default: str

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return "--" + self.name.replace("_", "-")


class Loaded(NamedTuple):
    """The settings, for each name the origin of its value, and what the user should know."""

    settings: Settings
    origins: dict[str, str]
    ignored: tuple[str, ...] = ()  # variables that cannot have been meant as settings
    warnings: tuple[str, ...] = ()


def _default_text(entry: Field[Any]) -> str:
    shown: str | None = entry.metadata["shown"]
    if shown is not None:
        return shown
    assert entry.default is not MISSING
    kind: Kind = entry.metadata["kind"]
    return kind.show(entry.default)


def table() -> list[Setting]:
    """Return all settings, in the order of :class:`Settings`."""
    return [
        Setting(
            entry.name,
            entry.metadata["kind"],
            entry.metadata["group"],
            entry.metadata["does"],
            _default_text(entry),
        )
        for entry in fields(Settings)
    ]
