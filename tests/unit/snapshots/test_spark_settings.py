"""Spark's configuration, from the settings and from this project."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from registry.base.config.settings import Settings
from snapshots.building.sources import LogSize
from snapshots.building.task import BuildFailed, EngineUnavailable
from snapshots.spark import jars
from snapshots.spark.jars import NotAvailable
from snapshots.spark.reading import kafka_options, tasks_for
from snapshots.spark.session import given_conf, open_session, session_conf


def test_passwords_and_certificates_travel_as_the_options_of_kafka(tmp_path: Path) -> None:
    for name in ("ca", "certificate", "key"):
        (tmp_path / f"{name}.pem").write_text(f"the {name}")
    given = Settings(
        kafka="broker:9093",
        kafka_security_protocol="SASL_SSL",
        kafka_sasl_mechanism="SCRAM-SHA-512",
        kafka_sasl_username="alice",
        kafka_sasl_password='a"b\\c',
        kafka_ssl_ca_location=str(tmp_path / "ca.pem"),
        kafka_ssl_certificate_location=str(tmp_path / "certificate.pem"),
        kafka_ssl_key_location=str(tmp_path / "key.pem"),
        kafka_ssl_key_password="secret",
        kafka_ssl_endpoint_identification_algorithm="",
    )
    assert kafka_options(given) == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.client.id": "registrar",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="alice" password="a\\"b\\\\c";',
        "kafka.ssl.endpoint.identification.algorithm": "",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": "the ca",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": "the certificate",
        "kafka.ssl.keystore.key": "the key",
        "kafka.ssl.key.password": "secret",
    }
    assert kafka_options(Settings(kafka="broker:9092")) == {
        "kafka.security.protocol": "PLAINTEXT",
        "kafka.client.id": "registrar",
    }


def test_tokens_and_kerberos_are_logins_of_javas_client(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("the\nca")
    secured = Settings(kafka="broker:9093", kafka_security_protocol="SASL_PLAINTEXT")
    tokens = replace(
        secured,
        kafka_sasl_mechanism="OAUTHBEARER",
        kafka_sasl_oauthbearer_token_endpoint_url="https://login.example/token",
        kafka_sasl_oauthbearer_client_id="registrar",
        kafka_sasl_oauthbearer_client_secret='a"b',
        kafka_sasl_oauthbearer_scope="schemas",
        kafka_sasl_oauthbearer_extensions="a=b, c=d",
        kafka_https_ca_location=str(tmp_path / "ca.pem"),
    )
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLogin"
    options = kafka_options(tokens)
    assert options["kafka.sasl.mechanism"] == "OAUTHBEARER"
    assert options["kafka.sasl.oauthbearer.token.endpoint.url"] == "https://login.example/token"
    assert options["kafka.sasl.login.callback.handler.class"] == f"{module}CallbackHandler"
    assert options["kafka.sasl.jaas.config"] == (
        f'{module}Module required clientId="registrar" clientSecret="a\\"b" scope="schemas" extension_a="b" '
        'extension_c="d" ssl.truststore.type="PEM" ssl.truststore.certificates="the\\nca";'
    )
    options = kafka_options(replace(secured, kafka_sasl_mechanism="GSSAPI"))
    assert options["kafka.sasl.kerberos.service.name"] == "kafka"
    assert "Krb5LoginModule" in options["kafka.sasl.jaas.config"]


def test_msk_iam_asks_for_the_jar_that_java_needs() -> None:
    given = Settings(
        kafka="broker:9098", kafka_security_protocol="SASL_SSL", kafka_sasl_mechanism="AWS_MSK_IAM"
    )
    with pytest.raises(BuildFailed, match="needs the jar aws-msk-iam-auth in Spark"):
        kafka_options(given)
    jar = replace(given, snapshots_spark_packages="software.amazon.msk:aws-msk-iam-auth:2.3.2")
    assert "IAMLoginModule" in kafka_options(jar)["kafka.sasl.jaas.config"]


def test_what_the_user_says_of_spark_counts_most() -> None:
    said = "spark.driver.memory=4g spark.x='a b' spark.jars=/opt/own.jar"
    given = Settings(snapshots_spark_master="spark://host:7077", kafka="broker:9092")
    conf = session_conf(replace(given, snapshots_spark_conf=said, snapshots_spark_master="local[*]"))
    assert conf["spark.driver.memory"] == "4g"
    assert conf["spark.x"] == "a b"
    assert conf["spark.jars"] == "/opt/own.jar"
    assert conf["spark.master"] == "local[*,3]", "a task that fails is tried again"
    packages = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.9"
    conf = session_conf(replace(given, snapshots_spark_packages=packages))
    assert conf["spark.jars.packages"] == packages
    assert "spark.jars" not in conf
    conf = session_conf(Settings(snapshots_spark_master="spark://host:7077"))
    assert conf["spark.master"] == "spark://host:7077"
    assert "spark.driver.host" not in conf


@pytest.mark.parametrize(
    ("where", "said", "found"),
    [
        ("spark://host:7077", "", ["spark.jars"]),
        ("spark://host:7077", "spark.driver.extraClassPath=/opt/own.jar", ["spark.jars"]),
        ("local[*]", "", []),
    ],
    ids=["a cluster", "the user's own class path", "this machine, where no connector reads"],
)
def test_spark_gets_its_connector(where: str, said: str, found: list[str]) -> None:
    given = Settings(kafka="broker:9092", snapshots_spark_master=where, snapshots_spark_conf=said)
    conf = session_conf(given)
    assert [key for key in conf if "spark-sql-kafka" in conf[key]] == found
    assert given_conf(said).items() <= conf.items()


def test_packages_that_the_user_names_come_beside_what_a_census_needs() -> None:
    def jars(settings: Settings, *formats: str) -> tuple[str, list[str]]:
        conf = session_conf(settings, records_in_java=True, formats=formats)
        names = (Path(each).name for each in conf.get("spark.jars", "").split(",") if each)
        return conf.get("spark.jars.packages", ""), [name for name in names if name.startswith("spark-")]

    delta = "io.delta:delta-spark_2.13:4.0.0"
    files = Settings(snapshots_spark_packages=delta)
    assert jars(files, "delta") == (delta, [])
    chosen, own = jars(replace(files, kafka="broker:9092"), "delta")
    assert (chosen, [name.rpartition("_")[0] for name in own]) == (
        delta,
        ["spark-sql-kafka-0-10", "spark-token-provider-kafka-0-10"],
    )
    assert [name.rpartition("_")[0] for name in jars(Settings(), "avro")[1]] == ["spark-avro"]
    avro = "org.apache.spark:spark-avro_2.13:4.0.1"
    assert jars(Settings(snapshots_spark_packages=avro), "avro") == (avro, [])
    assert "delta" in session_conf(files, formats=["delta"])["spark.sql.extensions"]
    assert "spark.sql.extensions" not in session_conf(files)


@pytest.mark.parametrize("text", ["spark.x", "=1", "spark.x='1"])
def test_what_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(BuildFailed, match="snapshots_spark_conf"):
        given_conf(text)


def test_the_connector_is_held_to_its_checksums(tmp_path: Path) -> None:
    found = jars.connector_jars()
    assert [jar.name for jar in found] == [
        "commons-pool2-2.12.0.jar",
        "kafka-clients-3.9.0.jar",
        "spark-sql-kafka-0-10_2.13-4.0.0.jar",
        "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
    ]
    for jar in found:
        (tmp_path / jar.name).write_bytes(jar.read_bytes())
    known = jars.connector_for("4.0.1")
    assert known is not None
    known.check(tmp_path)
    (tmp_path / found[0].name).write_bytes(b"other")
    with pytest.raises(NotAvailable, match=found[0].name):
        known.check(tmp_path)


@pytest.mark.parametrize(("spark", "known"), [("4.0.5", "4.0.0"), ("4.1.4", "4.1.1"), ("4.2.1", "4.2.0")])
def test_each_spark_has_its_connector_with_checksums(
    spark: str, known: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = jars.connector_for(spark)
    assert found is not None
    assert not found.is_cached
    home = Path(jars.__file__).parent
    sums = (home / f"connector-{known}.sha256").read_text().split()[1::2]
    wanted = re.findall(r'name="([^"]+)" rev="([^"]+)"', (home / f"connector-{known}.ivy.xml").read_text())
    assert sums == sorted(f"{name}-{version}.jar" for name, version in wanted)
    assert f"spark-sql-kafka-0-10_2.13-{known}.jar" in sums


def test_of_a_spark_that_is_not_known_the_connector_has_the_same_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.9.2")
    conf = session_conf(Settings(kafka="broker:9092", snapshots_spark_master="yarn"))
    assert conf["spark.jars.packages"] == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.9.2"
    assert "spark.jars" not in conf


def test_the_ui_is_off_on_one_machine_unless_it_is_wanted() -> None:
    assert session_conf(Settings())["spark.ui.enabled"] == "false"
    wanted = session_conf(Settings(snapshots_spark_conf="spark.ui.enabled=true"))
    assert wanted["spark.ui.enabled"] == "true"
    assert "spark.ui.enabled" not in session_conf(Settings(snapshots_spark_master="spark://host:7077"))


@pytest.mark.parametrize(("where", "remote"), [("sc://127.0.0.1:15002", ""), ("local[1]", "sc://h:15002")])
def test_spark_connect_is_refused(where: str, remote: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if remote:
        monkeypatch.setenv("SPARK_REMOTE", remote)
    with (
        pytest.raises(EngineUnavailable, match="Spark Connect cannot build snapshots"),
        open_session(Settings(snapshots_spark_master=where)),
    ):
        pass


def test_a_log_is_read_by_as_many_tasks_as_it_is_worth() -> None:
    sizes = [(0, 0), (10, 10**4), (1_000_000, 10**8), (1_000, 1 << 30), (10**12, 10**15)]
    assert [tasks_for(LogSize(*size), 2) for size in sizes] == [2, 2, 10, 8, 4096]
