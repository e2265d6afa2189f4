"""The table of settings: each with its default, what it may hold and what it does.

The names in the TOML file, the environment (``REGISTRAR_`` and the name in capitals) and the flags (``--``
and the name with dashes) follow from it, and so do the help, the example file and the table in
``docs/settings.md``.
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from .addresses import (
    ADDRESS,
    ANY_HOST,
    HOSTS,
    ORIGINS,
    PEER_ADDRESS,
    REACHED_ADDRESS,
    SERVERS,
    URL,
    ZOOKEEPER,
    read_url,
    split_address,
)
from .allowed import (
    FILE,
    FOLDER,
    SWITCH,
    Kind,
    choice,
    one_of_numbers,
    quoted,
    seconds,
    secret,
    size,
    text,
    whole,
)
from .header_config import HEADER_CONFIG
from .rhythm import RHYTHM
from .uris import has_secret

PREFIX = "REGISTRAR_"
# Each secret NAME may also be read from the file that the setting NAME_file names.
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

_NAME = r"(?!\.\.?$)[A-Za-z0-9._-]{1,249}"
_NAME_ALLOWED = "1 to 249 letters, digits, dots, dashes and underscores"
_PASSWORD = secret(1, "text; check-config never prints it")
_PEER_SECRET = secret(16, "at least 16 characters, or empty; check-config never prints it")
_ENCODER_SECRET = secret(1, "text, or empty; check-config never prints it")
_ZOOKEEPER_AUTH = secret(3, "USER:PASSWORD, or empty; check-config never prints it")
_NAME_CHECK = Kind(
    lambda value: choice("https", "").read("" if value == "none" else value),
    "https, or empty for no check",
    quoted,
)
_ONE_LINE = re.compile(r"[^\0\r\n]{0,2000}")


def _read_location(value: object) -> str:
    if not isinstance(value, str) or not _ONE_LINE.fullmatch(value) or has_secret(value):
        raise ValueError(value)
    return value


_LOCATION = Kind(
    _read_location,
    "the path of a folder, or a URI as in s3://bucket/registrar or hdfs://host:9000/registrar, "
    "without a password, key or signature; or empty",
    quoted,
)
_DAY = 86_400
_MIB = 2**20
_GIB = 2**30


def _cores() -> int:
    return min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def _setting(default: Any, kind: Kind, group: str, does: str, shown: str | None = None) -> Any:
    """A field: ``shown`` replaces the default's value in the docs where it depends on the machine."""
    metadata = {"kind": kind, "group": group, "does": does, "shown": shown}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata, repr=not kind.secret)


def _file(does: str, group: str = "security") -> Any:
    return _setting("", FILE, group, does)


def _secret_file(name: str, group: str = "security") -> Any:
    does = f"File that holds {name}, which then is not given itself; a line end after it is dropped"
    return _file(does, group)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set. Names end in their unit; sizes are bytes."""

    listen: str = _setting("127.0.0.1:8081", ADDRESS, "where", "Address of the HTTP API")
    data: Path = _setting(Path("./data"), FOLDER, "where", "Folder of the log and the store")
    readers: int = _setting(
        _cores,
        whole(0, 256),
        "where",
        "Processes that answer HTTP; 0 serves everything from the node's own process",
        "number of cores, at most 4",
    )
    cluster_id: str = _setting(
        "registrar",
        text(r"[A-Za-z0-9._-]{1,255}", "1 to 255 letters, digits, dots, dashes and underscores"),
        "where",
        "Id of this registry in /v1/metadata/id",
    )

    kafka: str = _setting(
        "",
        SERVERS,
        "cluster",
        "Kafka brokers whose topic is the log; empty for a log of its own, on one machine",
    )
    topic: str = _setting("_schemas", text(_NAME, _NAME_ALLOWED), "cluster", "Topic of the log")
    replication_factor: int = _setting(
        3, whole(1, 100), "cluster", "Replicas of the topic when it is made; with fewer brokers, one on each"
    )
    group: str = _setting(
        "schema-registry", text(_NAME, _NAME_ALLOWED), "cluster", "Group of the nodes that elect a primary"
    )
    election: str = _setting(
        "kafka",
        choice("kafka", "zookeeper", "static"),
        "cluster",
        "How the primary is found: by a Kafka group, by ZooKeeper, or named by the setting primary",
    )
    zookeeper: str = _setting(
        "", ZOOKEEPER, "cluster", "ZooKeeper servers and path; with election = zookeeper"
    )
    primary: str = _setting(
        "",
        URL,
        "cluster",
        "Advertised URL of the primary, with election = static; a node without it is the primary itself",
    )
    eligible: bool = _setting(True, SWITCH, "cluster", "Let this node become primary")
    advertise: str = _setting(
        "", URL, "cluster", "URL at which other nodes reach this one; empty takes it from listen"
    )
    peer_listen: str = _setting(
        "",
        PEER_ADDRESS,
        "cluster",
        "Address at which the primary takes other nodes' writes; empty takes listen's host and a free port",
    )
    peer_advertise: str = _setting(
        "",
        REACHED_ADDRESS,
        "cluster",
        "Address at which other nodes reach peer_listen, where it differs, as behind mapped ports",
    )
    session_timeout_s: float = _setting(
        6.0,
        seconds(0.5, 1800),
        "cluster",
        "Silence after which a node is no longer primary; brokers refuse less than 6 unless told otherwise",
    )
    fencing: str = _setting(
        "on",
        choice("on", "off"),
        "cluster",
        "Let the brokers refuse what a former primary still writes; off only where they deny InitProducerId",
    )
    fence_renew_s: float = _setting(
        3600.0,
        seconds(1, 30 * _DAY),
        "cluster",
        "Time without writes after which the primary renews the fence; sooner where brokers forget it sooner",
    )
    reads: str = _setting(
        "confirmed",
        choice("confirmed", "local"),
        "cluster",
        "Whether the log is asked for news before answers that can change, or the store is believed",
    )
    confirm_timeout_s: float = _setting(
        0.5,
        seconds(0.01, 60),
        "cluster",
        "Wait for that at most; then what is there is answered with a warning, and a miss with 503",
    )
    topic_check_every_s: float = _setting(
        300.0, seconds(1, 30 * _DAY), "cluster", "Time between looks at the topic's settings"
    )
    end_age_margin_s: float = _setting(
        3600.0,
        seconds(0, 30 * _DAY),
        "cluster",
        "A store is built anew when it was away for this much less than deletions stay in the topic",
    )
    allow_delete_policy: bool = _setting(
        False, SWITCH, "cluster", "Take a topic whose old records Kafka deletes, which loses schemas"
    )
    peer_secret: str = _setting(
        "", _PEER_SECRET, "security", "Secret that nodes share, to know one another; the same on all of them"
    )
    peer_secret_file: str = _secret_file("peer_secret")
    zookeeper_auth: str = _setting(
        "",
        _ZOOKEEPER_AUTH,
        "security",
        "User and password for ZooKeeper (digest), who then alone may use its nodes",
    )
    zookeeper_auth_file: str = _secret_file("zookeeper_auth")
    peer_tls_certificate: str = _file("Certificate of this node's peer endpoint and client, PEM")
    peer_tls_key: str = _file("Key of that certificate, PEM")
    peer_tls_ca: str = _file("Certificates of those who sign the other nodes' certificates, PEM")
    kafka_security_protocol: str = _setting(
        "PLAINTEXT",
        choice("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", fold=str.upper),
        "security",
        "Kafka's security.protocol",
    )
    kafka_sasl_mechanism: str = _setting(
        "",
        choice("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "", fold=str.upper),
        "security",
        "Kafka's sasl.mechanism",
    )
    kafka_sasl_username: str = _setting(
        "", text(r"[^\0]{0,255}", "at most 255 characters"), "security", "User at the brokers"
    )
    kafka_sasl_password: str = _setting("", _PASSWORD, "security", "Password at the brokers")
    kafka_sasl_password_file: str = _secret_file("kafka_sasl_password")
    kafka_ssl_ca_location: str = _file(
        "Certificates of those who sign the brokers', PEM; empty: the system's"
    )
    kafka_ssl_certificate_location: str = _file("Certificate to show to the brokers, PEM")
    kafka_ssl_key_location: str = _file("Key of the certificate for the brokers, PEM")
    kafka_ssl_key_password: str = _setting("", _PASSWORD, "security", "Password of that key")
    kafka_ssl_key_password_file: str = _secret_file("kafka_ssl_key_password")
    kafka_ssl_endpoint_identification_algorithm: str = _setting(
        "https", _NAME_CHECK, "security", "Whether a broker's certificate must name its host"
    )
    kafka_client_id: str = _setting(
        "registrar", text(_NAME, _NAME_ALLOWED), "security", "Name in the brokers' logs and quotas"
    )

    compatibility: str = _setting(
        "BACKWARD", choice(*_LEVELS, fold=str.upper), "rules", "Compatibility level where none is configured"
    )
    incompatible_error_code: int = _setting(
        40901,
        one_of_numbers(40901, 409),
        "rules",
        "error_code of a registration that is incompatible; 409 for clients that know only the older one",
    )
    keep_rule_sets: bool = _setting(
        True, SWITCH, "rules", "Keep the rule sets of requests; Confluent's open server drops them unseen"
    )
    validate_new_schemas: bool = _setting(
        True, SWITCH, "rules", "Hold new schemas to all rules of their type (Avro: names, defaults)"
    )
    validate_fields: bool = _setting(False, SWITCH, "rules", "Refuse fields whose names begin with $$")
    mode_mutability: bool = _setting(True, SWITCH, "rules", "Let PUT and DELETE on /mode change modes")
    reject_empty_subject: bool = _setting(False, SWITCH, "rules", "Refuse to register under an empty subject")
    associations_rules: str = _setting(
        "8.3",
        choice("8.3", "next"),
        "rules",
        "Confluent's rules for associations: those of 8.2.2 to 8.3.1, or the stricter ones that follow",
    )
    id_batch: int = _setting(
        20, whole(1, 100_000), "rules", "Ids reserved at once; a restart may skip as many"
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
        "The secret before that: the primary then adds a key to its keyset and writes it with the new secret",
    )
    metadata_encoder_old_secret_file: str = _secret_file("metadata_encoder_old_secret", "encoder")
    metadata_encoder_topic: str = _setting(
        "_schema_encoders",
        text(_NAME, _NAME_ALLOWED),
        "encoder",
        "Topic of the keyset; without kafka it is a file in the folder data",
    )

    body_bytes_max: int = _setting(
        5 * _MIB, size(1024, _GIB), "limits", "Largest request body; a larger one is refused with 413"
    )
    size_limit_filter_enabled: bool = _setting(
        False, SWITCH, "limits", "Let the next setting bound request bodies too, as Confluent's servers do"
    )
    size_limit_filter_max_request_body_size: int = _setting(
        _MIB, size(1, _GIB), "limits", "Largest request body where size_limit_filter_enabled is set"
    )
    record_bytes_max: int = _setting(
        5_600_000, size(1024, _GIB), "limits", "Largest record of the log; a larger one is refused with 42209"
    )
    request_timeout_s: float = _setting(
        30.0, seconds(0.1, 3600), "limits", "Time for a request, from its last byte to the answer"
    )
    compatibility_budget_s: float = _setting(
        5.0,
        seconds(0.1, 3600),
        "limits",
        "Processor time that comparing the schemas of a request may take; what takes more is refused (422)",
    )
    header_timeout_s: float = _setting(
        15.0, seconds(0.1, 3600), "limits", "Time for a request's headers to arrive"
    )
    body_timeout_s: float = _setting(
        30.0, seconds(0.1, 3600), "limits", "Time for a request's body to arrive"
    )
    idle_timeout_s: float = _setting(
        75.0, seconds(0.1, 86_400), "limits", "Time until a connection without requests is closed"
    )
    connections_max: int = _setting(
        10_000, whole(1, 1_000_000), "limits", "Open connections of each process that serves HTTP"
    )
    queue_max: int = _setting(
        10_000, whole(1, 1_000_000), "limits", "Writes that may wait; one more is refused with 503"
    )
    queue_bytes_max: int = _setting(
        256 * _MIB,
        size(_MIB, 64 * _GIB),
        "limits",
        "Bytes of the writes that may wait, in each process; a large write beyond is refused with 503",
    )

    store_map_bytes: int = _setting(
        64 * _GIB, size(16 * _MIB, 2**46), "storage", "Largest size of the store; the file is sparse"
    )
    log_map_bytes: int = _setting(
        64 * _GIB, size(16 * _MIB, 2**46), "storage", "Largest size of the log; the file is sparse"
    )
    min_compaction_lag_s: float = _setting(
        float(_DAY),
        seconds(0, 10 * 365 * _DAY),
        "storage",
        "Age at which a replaced record may leave the log",
    )
    tombstone_retention_s: float = _setting(
        7.0 * _DAY,
        seconds(0, 10 * 365 * _DAY),
        "storage",
        "Age at which a deletion's record may leave the log",
    )

    snapshots: str = _setting(
        "",
        _LOCATION,
        "snapshots",
        "Where snapshots are kept, for nodes and builders alike; empty for a folder within data",
    )
    snapshots_builder: str = _setting(
        "local",
        choice("local", "spark", "none"),
        "snapshots",
        "Who builds what is asked for: the primary's host, with or without Spark, or nobody here",
    )
    snapshots_every: str = _setting(
        "",
        RHYTHM,
        "snapshots",
        "Records, or time, since the last snapshot after which the primary asks for another; empty for never",
    )
    snapshots_keep: int = _setting(
        3, whole(1, 10_000), "snapshots", "Snapshots that are kept; older ones are deleted"
    )
    snapshots_load: str = _setting(
        "on", choice("on", "off"), "snapshots", "Let a node start from a snapshot instead of the whole log"
    )
    snapshots_load_ahead: int = _setting(
        20_000,
        whole(1, 2**40),
        "snapshots",
        "Records that a snapshot must be ahead of a node's store to be loaded; fewer are read from the log",
    )
    snapshots_spark_master: str = _setting(
        "local[*]", text(r"[^\0\s]{1,500}", "a master's URL as Spark takes it"), "snapshots", "Spark's master"
    )
    snapshots_spark_packages: str = _setting(
        "",
        text(r"[^\0\s]{0,2000}", "Maven coordinates with commas between them, or empty"),
        "snapshots",
        "Spark's Kafka connector, for a Spark of another version than PySpark's own here",
    )
    snapshots_spark_conf: str = _setting(
        "",
        text(r"[^\0]{0,4000}", "NAME=VALUE, several with blanks between them, or empty"),
        "snapshots",
        "Further settings of Spark's session",
    )

    cache_max_age_s: int = _setting(
        0, whole(0, 365 * _DAY), "answers", "max-age of answers by id and guid; 0 sends none"
    )
    cors_origins: str = _setting(
        "", ORIGINS, "answers", "Origins whose pages may call this API from a browser"
    )
    response_http_headers_config: str = _setting(
        "",
        HEADER_CONFIG,
        "answers",
        "Headers of every answer, as in Confluent's setting of this name",
    )
    allowed_hosts: str = _setting(
        "",
        HOSTS,
        "answers",
        "Names that Host may have, against DNS rebinding; empty: on a loopback address its own, else all",
    )
    log_level: str = _setting(
        "info", choice("debug", "info", "warning", "error"), "answers", "Least level of the log lines printed"
    )
    log_format: str = _setting(
        "console", choice("console", "json"), "answers", "Log lines for people or for machines"
    )
    access_log: bool = _setting(False, SWITCH, "answers", "One log line for each request")

    @property
    def host(self) -> str:
        """Host of ``listen``, an IPv6 address without its brackets."""
        return split_address(self.listen)[0]

    @property
    def port(self) -> int:
        """Port of ``listen``."""
        return split_address(self.listen)[1]

    @property
    def advertised(self) -> str:
        """URL at which other nodes reach this one, with its port and without a path."""
        if self.advertise:
            return self.advertise
        host = socket.getfqdn() if self.host in ANY_HOST else self.host
        return read_url(f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}")

    @property
    def request_bytes_max(self) -> int:
        """Largest request body by all settings together."""
        if not self.size_limit_filter_enabled:
            return self.body_bytes_max
        return min(self.body_bytes_max, self.size_limit_filter_max_request_body_size)

    @property
    def snapshots_location(self) -> str:
        """Where snapshots are kept: ``snapshots``, or the folder that stands for it."""
        return self.snapshots or str(self.data / "snapshots")

    @property
    def peer_address(self) -> tuple[str, int]:
        """Host and port of the peer endpoint; port 0 stands for a free one."""
        return split_address(self.peer_listen) if self.peer_listen else (self.host, 0)

    @property
    def zookeeper_hosts(self) -> str:
        """The servers in ``zookeeper``, ``HOST:PORT,…``."""
        return self.zookeeper.partition("/")[0]

    @property
    def zookeeper_chroot(self) -> str:
        """The path in ``zookeeper``, with its slash; empty where there is none."""
        return self.zookeeper[len(self.zookeeper_hosts) :]

    @property
    def transactional_id(self) -> str:
        """Kafka's name for the right to append, the same on all nodes: a new claim ends those before it."""
        return f"registrar.{self.group}.{self.topic}"

    @property
    def security(self) -> dict[str, str]:
        """The Kafka client's TLS and SASL settings by Kafka's names, with underscores for their dots."""
        return {
            kafka.replace(".", "_"): getattr(self, name)
            for kafka, name in SECURITY.items()
            if not name.endswith(SECRET_FILE)
        }


# Confluent's names in the environment, for what is given nowhere else.
VARIABLES = {
    "METADATA_ENCODER_SECRET": "metadata_encoder_secret",
    "METADATA_ENCODER_OLD_SECRET": "metadata_encoder_old_secret",
}

SECURITY = {
    entry.name.removeprefix("kafka_").replace("_", "."): entry.name
    for entry in fields(Settings)
    if entry.name.startswith("kafka_")
}
"""The settings of the Kafka client by the names that Kafka gives them."""


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
    """The settings, and for each name where its value came from."""

    settings: Settings
    origins: dict[str, str]


def _default_text(entry: Field[Any]) -> str:
    shown: str | None = entry.metadata["shown"]
    if shown is not None:
        return shown
    assert entry.default is not MISSING
    kind: Kind = entry.metadata["kind"]
    return kind.show(entry.default)


def table() -> list[Setting]:
    """Every setting, in the order of :class:`Settings`."""
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
