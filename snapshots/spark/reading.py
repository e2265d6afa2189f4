"""The log as a Spark DataFrame, and its records, bundled for the tasks that fold them, with their owners."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from registry.base.config.settings import SECRET_FILE, Settings
from registry.base.config.sources import current_secret
from registry.domain.fold.fold import owner as owner_of
from snapshots.building.sources import LogSize, ReadableLog, records_between
from snapshots.building.task import EngineUnavailable, Task

from . import local_log
from .local_log import Step
from .session import runs_here
from .tasks.bundles import BUNDLES, read
from .tasks.owned_records import OWNERS, owners_of

RECORDS_IN_TASK, BYTES_IN_TASK = 100_000, 128 << 20
_TASKS_MAX = 4_096
POLL_MS = 120_000
FETCH = {
    # With the default of 500 records, each fetch costs as much as reading its records.
    "kafka.max.poll.records": "5000",
    "kafka.max.partition.fetch.bytes": str(4 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
}
_TOKENS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLogin"
_LOGIN = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def tasks_for(size: LogSize, least: int) -> int:
    """Return how many tasks read or fold so much. A compacted log has few records of many offsets."""
    wanted = max(-(-size.records // RECORDS_IN_TASK), -(-size.bytes // BYTES_IN_TASK))
    return max(least, min(_TASKS_MAX, wanted))


def from_log(session: SparkSession, task: Task, step: Step, columns: str) -> DataFrame:
    """Return what ``step`` makes of the log's records from the task's start up to its end, batch by batch."""
    least = session.sparkContext.defaultParallelism
    # The log is one partition, but several tasks can read it.
    size = task.log_size()
    tasks = tasks_for(size, min(least, 1 + size.records // 1_000))
    settings = task.settings
    if runs_here(session.sparkContext.master or ""):
        where = local_log.stretches(settings, task.source.log.identity, size.start, task.end, tasks)
        return session.range(0, tasks, 1, tasks).mapInArrow(partial(local_log.read, where, step), columns)
    if not settings.kafka:
        raise EngineUnavailable("the log is on this host: only a Spark that runs here (local) can read it")
    return _kafka(session, task, tasks).mapInArrow(step, columns)


def _kafka(session: SparkSession, task: Task, tasks: int) -> DataFrame:
    settings = task.settings
    start = json.dumps({settings.topic: {"0": task.start}}) if task.base else "earliest"
    reader = session.read.format("kafka").options(
        **kafka_options(settings),
        **{
            "kafka.bootstrap.servers": settings.kafka,
            "assign": json.dumps({settings.topic: [0]}),
            "startingOffsets": start,
            "endingOffsets": json.dumps({settings.topic: {"0": task.end}}),
            "minPartitions": str(tasks),
            # With "false", missing records would be skipped silently.
            "failOnDataLoss": "true",
            "kafkaConsumer.pollTimeoutMs": str(POLL_MS),
            **FETCH,
        },
    )
    return reader.load().select("key", "offset", sql.unix_millis("timestamp").alias("ts"), "value")


def kafka_options(settings: Settings) -> dict[str, str]:
    """Return the security settings as options of Spark's Kafka source.

    Certificates and keys (PKCS #8) are passed as PEM texts, so that executors need no files.
    """
    protocol = settings.kafka_security_protocol
    options = {"security.protocol": protocol, "client.id": settings.kafka_client_id}
    if protocol.startswith("SASL"):
        options |= _sasl(settings)
    if protocol.endswith("SSL"):
        options |= _tls(settings)
    return {f"kafka.{name}": value for name, value in options.items()}


def _sasl(settings: Settings) -> dict[str, str]:
    """Return the login. Raises :class:`.task.EngineUnavailable` if Java's client does not have it."""
    match mechanism := settings.kafka_sasl_mechanism or "PLAIN":
        case "OAUTHBEARER":
            return _oauth(settings)
        case "GSSAPI":
            jaas = _jaas("com.sun.security.auth.module.Krb5LoginModule", {"useTicketCache": "true"})
            service = {"sasl.kerberos.service.name": settings.kafka_sasl_kerberos_service_name}
            return {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas, **service}
        case "AWS_MSK_IAM":
            if "aws-msk-iam-auth" not in settings.snapshots_spark_conf + settings.snapshots_spark_packages:
                raise EngineUnavailable(
                    "kafka_sasl_mechanism = AWS_MSK_IAM needs the jar aws-msk-iam-auth in Spark: name it in "
                    "snapshots_spark_packages or snapshots_spark_conf (docs/security.md), or build with "
                    "--engine local"
                )
            return {
                "sasl.mechanism": mechanism,
                "sasl.jaas.config": _jaas("software.amazon.msk.auth.iam.IAMLoginModule", {}),
                "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
            }
        case _:
            login = {
                "username": settings.kafka_sasl_username,
                "password": _secret(settings, "kafka_sasl_password"),
            }
            return {"sasl.mechanism": mechanism, "sasl.jaas.config": _jaas(_LOGIN[mechanism], login)}


def _oauth(settings: Settings) -> dict[str, str]:
    login = {
        "clientId": settings.kafka_sasl_oauthbearer_client_id,
        "clientSecret": _secret(settings, "kafka_sasl_oauthbearer_client_secret"),
    }
    if settings.kafka_sasl_oauthbearer_scope:
        login["scope"] = settings.kafka_sasl_oauthbearer_scope
    pairs = settings.kafka_sasl_oauthbearer_extensions.split(",")
    login |= {f"extension_{name.strip()}": value for name, is_, value in map(_pair, pairs) if is_}
    if settings.kafka_https_ca_location:
        login["ssl.truststore.type"] = "PEM"
        login["ssl.truststore.certificates"] = _text(settings.kafka_https_ca_location)
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": _jaas(f"{_TOKENS}Module", login),
        "sasl.login.callback.handler.class": f"{_TOKENS}CallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": settings.kafka_sasl_oauthbearer_token_endpoint_url,
    }


def _secret(settings: Settings, name: str) -> str:
    return current_secret(getattr(settings, name), getattr(settings, name + SECRET_FILE))


def _pair(text: str) -> tuple[str, str, str]:
    return text.partition("=")


def _jaas(module: str, options: dict[str, str]) -> str:
    words = [module, "required", *(f"{name}={_quote(value)}" for name, value in options.items())]
    return f"{' '.join(words)};"


def _tls(settings: Settings) -> dict[str, str]:
    algorithm = settings.kafka_ssl_endpoint_identification_algorithm
    options = {"ssl.endpoint.identification.algorithm": algorithm}
    if settings.kafka_ssl_ca_location:
        options["ssl.truststore.type"] = "PEM"
        options["ssl.truststore.certificates"] = _text(settings.kafka_ssl_ca_location)
    if settings.kafka_ssl_certificate_location:
        options["ssl.keystore.type"] = "PEM"
        options["ssl.keystore.certificate.chain"] = _text(settings.kafka_ssl_certificate_location)
        key = settings.kafka_ssl_key_location or settings.kafka_ssl_certificate_location
        options["ssl.keystore.key"] = _text(key)
        if settings.kafka_ssl_key_password:
            options["ssl.key.password"] = _secret(settings, "kafka_ssl_key_password")
    return options


def _text(file: str) -> str:
    return Path(file).read_text(encoding="utf-8")


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "").replace("\n", "\\n")
    return f'"{escaped}"'


def read_bundles(session: SparkSession, task: Task, places: Broadcast[list[int]]) -> DataFrame:
    """Return the log's records in bundles; ``places``: a number for each task that folds."""
    return from_log(session, task, partial(read, places), BUNDLES)


def sort_bundles(bundles: DataFrame, partitions: int) -> DataFrame:
    """Return bundles in so many partitions, each in the order in which :mod:`.tasks.bundles` merges them."""
    return bundles.repartition(partitions, "place").sortWithinPartitions("first").select("first", "data")


def find_owners_here(log: ReadableLog, start: int, end: int) -> list[bytes]:
    """Return the owners of the records from ``start`` up to ``end``, sorted.

    For few records, this takes less time than starting Spark. Raises
    :class:`registry.log.contract.LogError`.
    """
    return sorted({owner_of(record.key) for record in records_between(log, start, end)})


def find_owners_by_spark(session: SparkSession, task: Task, partitions: int, most: int) -> list[bytes]:
    """Return the owners of the records, sorted; if there are more than ``most``, any ``most + 1`` of them."""
    owners = (
        from_log(session, task, owners_of, OWNERS).repartition(partitions, "owner").distinct().limit(most + 1)
    )
    return sorted(owners.toArrow().column("owner").to_pylist())
