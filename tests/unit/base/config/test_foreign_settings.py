"""Settings of Confluent's Schema Registry and of Karapace: what they become, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from registry.__main__ import main
from registry.base.config.foreign.confluent import CONFLUENT
from registry.base.config.foreign.karapace import KARAPACE
from registry.base.config.foreign.mapping import Registry
from registry.base.config.foreign.translation import REGISTRIES
from registry.base.config.loading import Loaded, SettingsError, load, table

BROKER = "kafkastore.bootstrap.servers=127.0.0.1:9092\n"
SECRET = "hunter2-of-the-brokers"
# The settings that any properties file gives.
FILE = ("kafka", "listeners")
LOGIN = (
    "kafkastore.security.protocol=SASL_PLAINTEXT\nkafkastore.bootstrap.servers=SASL_PLAINTEXT://a:1\n"
    "kafkastore.sasl.mechanism={}\nkafkastore.sasl.jaas.config={}\n"
)
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required"
TOKENS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "schema-registry.properties"


def loaded(file: Path, text: str, *, flags: dict[str, str] | None = None, **environment: str) -> Loaded:
    file.write_text(BROKER + text, encoding="utf-8")
    return load(flags, environment, properties=file)


def problems(file: Path, text: str, **environment: str) -> str:
    with pytest.raises(SettingsError) as caught:
        loaded(file, text, **environment)
    return str(caught.value)


def changed(found: Loaded, *always: str) -> dict[str, object]:
    """Return the settings that were given, except those that are always given."""
    return {
        name: getattr(found.settings, name)
        for name, origin in found.origins.items()
        if origin != "default" and name not in always
    }


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.title)
def test_every_counterpart_is_a_setting_and_every_row_says_how(registry: Registry) -> None:
    names = {setting.name for setting in table()}
    assert {ours for row in registry.rows for ours in row.ours} <= names
    assert all(row.how for row in registry.rows)
    assert len({row.name for row in registry.rows}) == len(registry.rows)
    # A pattern in front of a name would hide it.
    assert all(registry.row(row.name) is row for row in registry.rows)


def test_a_properties_file_is_read_as_java_reads_it(file: Path) -> None:
    file.write_bytes(
        b"! a comment\nkafkastore.bootstrap.servers: PLAINTEXT://a:1,\\\n    SSL://b:2,c:3\n"
        b"kafkastore.topic = \\u005fschemas\\\n-2\nschema.registry.group.id group-\\\n  1\n"
        b"response.http.headers.config=set X-Name: caf\xe9\n"
    )
    settings = load(properties=file).settings
    assert (settings.kafka, settings.topic, settings.group) == ("a:1,c:3", "_schemas-2", "group-1")
    assert settings.cluster_id == "group-1"
    assert settings.response_http_headers_config == "set X-Name: café"
    assert settings.listeners == "http://0.0.0.0:8081", "Confluent's default"


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("kafkastore.topic=t", {"topic": "t"}),
        ("leader.eligibility=false", {"eligible": False}),
        ("master.eligibility=false\nleader.eligibility=true", {"eligible": False}),
        ("avro.compatibility.level=full\nschema.compatibility.level=none", {"compatibility": "FULL"}),
        ("mode.mutability=false", {"mode_mutability": False}),
        ("kafkagroup.session.timeout.ms=12500", {"session_timeout_s": 12.5}),
        ("access.control.allow.origin=*", {"cors_origins": "*"}),
        ("request.timeout.ms=0", {}),
        ("enable.fips=false\nauthentication.method=NONE\ninter.instance.protocol=http", {}),
        ("listeners=http://:8085\nhost.name=me", {"advertise": "http://me:8085"}),
        ("host.name=me\nhost.port=80\ninter.instance.protocol=http", {"advertise": "http://me:80"}),
        (
            "listeners=IN://0.0.0.0:1,OUT://0.0.0.0:2\nlistener.protocol.map=in:http,out:http\nhost.name=me\n"
            "inter.instance.listener.name=OUT",
            {"advertise": "http://me:2"},
        ),
        # Settings of TLS and SASL do not count while they are not used, as in Confluent's server.
        ("ssl.keystore.location=/none.jks\nssl.keystore.password=x\nssl.client.auth=false", {}),
        ("kafkastore.ssl.truststore.location=/none.jks\nkafkastore.sasl.jaas.config=x", {}),
    ],
)
def test_settings_become_ours(file: Path, text: str, ours: dict[str, object]) -> None:
    assert changed(loaded(file, text), *FILE) == ours


def test_a_secured_kafka_is_translated(file: Path, tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_text("-----BEGIN CERTIFICATE-----\n")
    found = loaded(
        file,
        "kafkastore.bootstrap.servers=SASL_SSL://a:1,PLAINTEXT://b:2\nkafkastore.security.protocol=SASL_SSL\n"
        f"kafkastore.sasl.mechanism=SCRAM-SHA-512\nkafkastore.ssl.truststore.location={ca}\n"
        "kafkastore.ssl.endpoint.identification.algorithm=\nkafkastore.sasl.jaas.config=\\\n"
        "  org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        f'  username="sr" password="{SECRET}\\\\"";\n',
    ).settings
    assert found.kafka == "a:1"
    assert (found.kafka_sasl_username, found.kafka_sasl_password) == ("sr", f'{SECRET}"')
    assert found.kafka_ssl_ca_location == str(ca)
    assert found.kafka_ssl_endpoint_identification_algorithm == ""


@pytest.mark.parametrize(
    ("mechanism", "entry", "ours"),
    [
        ("GSSAPI", f'{KERBEROS} useTicketCache=true serviceName="brokers";',
         {"kerberos_service_name": "brokers"}),
        ("GSSAPI", f"{KERBEROS} useTicketCache=true;", {}),
        ("AWS_MSK_IAM", "software.amazon.msk.auth.iam.IAMLoginModule required;", {}),
        (
            "OAUTHBEARER",
            f'{TOKENS} clientId=registry clientSecret="{SECRET}" scope="a b" '
            'extension_pool="p" extension_lkc=1;',
            {
                "oauthbearer_client_id": "registry", "oauthbearer_client_secret": SECRET,
                "oauthbearer_scope": "a b", "oauthbearer_extensions": "pool=p,lkc=1",
                "oauthbearer_token_endpoint_url": "https://i/token",
            },
        ),
    ],
)  # fmt: skip
def test_logins_of_each_mechanism_are_translated(
    file: Path, mechanism: str, entry: str, ours: dict[str, str]
) -> None:
    text = LOGIN.format(mechanism, entry)
    if mechanism == "OAUTHBEARER":
        text += "kafkastore.sasl.oauthbearer.token.endpoint.url=https://i/token\n"
    found = changed(loaded(file, text), *FILE, "kafka_security_protocol", "kafka_sasl_mechanism")
    assert found == {f"kafka_sasl_{name}": value for name, value in ours.items()}


def test_the_certificate_for_kafka_is_taken_from_pem(file: Path, tmp_path: Path) -> None:
    pem = tmp_path / "client.pem"
    pem.write_text("-----BEGIN PRIVATE KEY-----\n")
    text = (
        "kafkastore.security.protocol=SSL\nkafkastore.bootstrap.servers=SSL://a:1\n"
        f"kafkastore.ssl.keystore.location={pem}\nkafkastore.ssl.keystore.password=of-the-store\n"
    )
    found = loaded(file, text).settings
    assert {found.kafka_ssl_certificate_location, found.kafka_ssl_key_location} == {str(pem)}
    assert found.kafka_ssl_key_password == "of-the-store"
    found = loaded(file, text + "kafkastore.ssl.key.password=of-the-key\n").settings
    assert found.kafka_ssl_key_password == "of-the-key"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("authentication.method=BASIC", "set users"),
        ("authentication.method=BEARER", "jwt_jwks"),
        ("enable.fips=true", "FIPS"),
        ("ssl.client.authentication=REQUIRED", "no listener has https"),
        ("listeners=https://0.0.0.0:8085\nssl.keystore.location={jks}", "keytool -importkeystore"),
        ("listeners=https://0.0.0.0:8085\nssl.enabled.protocols=TLSv1.3", "TLS 1.2"),
        ("kafkastore.security.protocol=SSL\nkafkastore.ssl.truststore.location={jks}", "keytool -exportcert"),
        ("kafkastore.security.protocol=SSL\nkafkastore.ssl.keystore.location={jks}", "openssl pkcs12"),
        ("kafkastore.bootstrap.servers=SSL://a:1", "kafkastore.security.protocol is PLAINTEXT"),
        ("inter.instance.protocol=https", "peer_tls_certificate"),
        ("resource.extension.class=io.confluent.SchemaRegistrySecurityResourceExtension", "rules"),
        ("listener.name.https.ssl.keystore.location=x", "listener.name.NAME"),
        ("listeners=EXTERNAL://0.0.0.0:1", "listener.protocol.map"),
        ("kafkagroup.session.timeout.ms=soon", "milliseconds"),
        (LOGIN.format("GSSAPI", f'{KERBEROS} keyTab="/keytab";'), "KRB5_CLIENT_KTNAME"),
        (LOGIN.format("PLAIN", "org.example.Login required;"), "the login module org.example.Login"),
        (LOGIN.format("PLAIN", "username=u password=p"), "is not a JAAS entry"),
        (
            "listeners=https://0.0.0.0:8085\nssl.keystore.location={p12}\nssl.keystore.password=x\n"
            "ssl.key.password=y",
            "a password of its own",
        ),
        ("mode.mutability=perhaps", "mode_mutability"),
    ],
)
def test_what_cannot_be_given_in_the_same_way_is_refused(
    file: Path, tmp_path: Path, text: str, says: str
) -> None:
    jks, p12 = tmp_path / "store.jks", tmp_path / "store.p12"
    jks.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    p12.write_bytes(b"\x30\x82\x01\x01")
    told = problems(file, text.format(jks=jks, p12=p12))
    assert says in told
    assert str(file) in told


def test_ours_answer_a_refusal(file: Path, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("")
    found = loaded(file, "authentication.method=BASIC", flags={"users": str(users)})
    assert found.settings.users == str(users)


def test_pkcs12_and_pem_are_taken_as_they_are(file: Path, tmp_path: Path) -> None:
    p12, pem = tmp_path / "store.p12", tmp_path / "store.pem"
    p12.write_bytes(b"\x30\x82\x01\x01")
    pem.write_text("-----BEGIN PRIVATE KEY-----\n")
    https = "listeners=https://0.0.0.0:8085\nssl.keystore.location={}\nssl.keystore.password=x\n"
    found = loaded(file, https.format(p12)).settings
    assert (found.tls_keystore, found.tls_keystore_password) == (str(p12), "x")
    both = https.format(pem) + (
        f"ssl.keystore.type=PEM\nssl.client.authentication=REQUESTED\nssl.truststore.location={pem}\n"
        "confluent.schema.registry.auth.ssl.principal.mapping.rules=RULE:^CN=(.*)$/$1/\n"
    )
    found = loaded(file, both).settings
    assert (found.tls_certificate, found.tls_key, found.tls_client_ca) == (str(pem), str(pem), str(pem))
    assert (found.tls_client_auth, found.tls_principal_rules) == ("wanted", "RULE:^CN=(.*)$/$1/")


def test_a_registry_without_its_log_does_not_start(file: Path) -> None:
    file.write_text("listeners=http://0.0.0.0:8081\n")
    with pytest.raises(SettingsError, match="a new, empty registry would start"):
        load(properties=file)
    with pytest.raises(SettingsError, match=r"SCHEMA_REGISTRY_…\) names no Kafka brokers"):
        load(environment={"SCHEMA_REGISTRY_LISTENERS": "http://0.0.0.0:8081"})
    assert load({"kafka": "a:1"}, properties=file).settings.kafka == "a:1"


def test_unknown_and_unusable_settings_are_reported_by_name(file: Path) -> None:
    text = "schema.compatability.level=full\nthread.pool.max=3\nmy.password=hunter2\n"
    told = "\n".join(loaded(file, text, SCHEMA_REGISTRY_MODE_MUTABILTY="true").warnings)
    assert "schema.compatability.level" in told
    assert "did you mean schema.compatibility.level?" in told
    assert "SCHEMA_REGISTRY_MODE_MUTABILTY; did you mean SCHEMA_REGISTRY_MODE_MUTABILITY?" in told
    assert "no counterpart and are ignored: thread.pool.max" in told
    assert "my.password" in told
    assert "hunter2" not in told


def test_the_order_is_file_environment_ours_and_what_is_overridden_is_reported(file: Path) -> None:
    text = "kafkastore.topic=a\nschema.registry.group.id=g\nleader.eligibility=false\nlisteners=http://h:1\n"
    found = loaded(
        file, text, flags={"listen": "h:2"}, SCHEMA_REGISTRY_KAFKASTORE_TOPIC="b", REGISTRAR_GROUP="h",
        REGISTRAR_ELIGIBLE="false",
    )  # fmt: skip
    assert (found.settings.topic, found.settings.group, found.settings.listen) == ("b", "h", "h:2")
    assert found.origins["topic"] == "environment SCHEMA_REGISTRY_KAFKASTORE_TOPIC"
    assert found.origins["cluster_id"] == f"file {file}: schema.registry.group.id"
    told = "\n".join(found.warnings)
    assert "kafkastore.topic" in told
    assert (
        f"group (file {file}: schema.registry.group.id) is overridden by environment REGISTRAR_GROUP" in told
    )
    assert "is overridden by listen" in told
    assert "eligible" not in told, "both say the same"


def test_listeners_win_over_the_address_that_an_image_sets(file: Path) -> None:
    """Otherwise https would become http without the knowledge of those who asked for it."""
    image = {"REGISTRAR_LISTEN": "0.0.0.0:8081"}
    found = loaded(file, "listeners=http://127.0.0.1:8085\n", **image)
    assert [each.port for each in found.settings.addresses] == [8085]
    assert (
        f"listen (environment REGISTRAR_LISTEN) is overridden by listeners (file {file}" in found.warnings[0]
    )
    assert loaded(file, "", REGISTRAR_LISTEN="127.0.0.1:8086").settings.main_address.port == 8086
    assert loaded(file, "").settings.main_address.port == 8081, "Confluent's default"
    https = "listeners=https://0.0.0.0:8085\nssl.keystore.location=/etc/hosts\n"
    with pytest.raises(SettingsError, match="asks for https, but listen"):
        loaded(file, https, flags={"listen": "0.0.0.0:8081"})


def test_what_kubernetes_makes_of_services_is_no_setting() -> None:
    environment = {
        "SCHEMA_REGISTRY_PORT": "tcp://10.0.0.1:8081",
        "SCHEMA_REGISTRY_SERVICE_HOST": "10.0.0.1",
        "SCHEMA_REGISTRY_SERVICE_PORT_HTTP": "8081",
        "SCHEMA_REGISTRY_1_PORT_8081_TCP_ADDR": "10.0.0.1",
        "KARAPACE_REGISTRY_PORT": "tcp://10.0.0.1:8081",
        "KARAPACE_PORT": "tcp://10.0.0.1:8081",
        # For clients.
        "SCHEMA_REGISTRY_URL": "http://registry:8081",
    }
    found = load(environment=environment)
    assert found.warnings == ()
    assert set(found.origins.values()) == {"default"}


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ({"HOST": "::", "PORT": "8085"}, {"listeners": "http://[::]:8085"}),
        ({"PORT": "8085"}, {"listeners": "http://127.0.0.1:8085"}),
        (
            {"ADVERTISED_HOSTNAME": "::1", "ADVERTISED_PROTOCOL": "https", "ADVERTISED_PORT": "443"},
            {"advertise": "https://[::1]:443"},
        ),
        ({"ADVERTISED_PORT": "443"}, {}),
        (
            {"SESSION_TIMEOUT_MS": "12500", "LOG_LEVEL": "CRITICAL"},
            {"session_timeout_s": 12.5, "log_level": "error"},
        ),
        # Settings of TLS and SASL do not count while they are not used, as in Karapace.
        ({"SSL_CAFILE": "/none", "SSL_CHECK_HOSTNAME": "false"}, {}),
        ({"SASL_PLAIN_USERNAME": "u", "SASL_OAUTH_TOKEN_PROVIDER_CLASS": "Provider"}, {}),
        (
            {"SECURITY_PROTOCOL": "SSL", "SSL_CHECK_HOSTNAME": "false", "SASL_MECHANISM": "PLAIN"},
            {"kafka_security_protocol": "SSL", "kafka_ssl_endpoint_identification_algorithm": ""},
        ),
        (
            {"SASL_OAUTHBEARER_JWKS_ENDPOINT_URL": "https://i/keys", "SASL_OAUTHBEARER_METHOD_ROLES": "x"},
            {},
        ),
        (
            {
                "SASL_OAUTHBEARER_AUTHORIZATION_ENABLED": "true",
                "SASL_OAUTHBEARER_JWKS_ENDPOINT_URL": "https://i/keys",
                "SASL_OAUTHBEARER_EXPECTED_ISSUER": "https://i",
                "SASL_OAUTHBEARER_EXPECTED_AUDIENCE": "registry",
                "SASL_OAUTHBEARER_ROLES_CLAIM_PATH": "realm.roles",
            },
            {
                "jwt_jwks": "https://i/keys", "jwt_issuer": "https://i", "jwt_audience": "registry",
                "jwt_groups_claim": "realm.roles",
            },
        ),
    ],
)  # fmt: skip
def test_settings_of_karapace_become_ours(given: dict[str, str], ours: dict[str, object]) -> None:
    assert changed(of_karapace(given), "kafka") == ours


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"SASL_OAUTHBEARER_AUTHORIZATION_ENABLED": "true"}, "set jwt_jwks"),
        (
            {
                "SASL_OAUTHBEARER_AUTHORIZATION_ENABLED": "true",
                "SASL_OAUTHBEARER_JWKS_ENDPOINT_URL": "https://i/keys",
                "SASL_OAUTHBEARER_METHOD_ROLES": '{"GET": ["reader"]}',
            },
            "set rules",
        ),
        (
            {"SECURITY_PROTOCOL": "SASL_PLAINTEXT", "SASL_OAUTH_TOKEN_PROVIDER_CLASS": "Provider"},
            "kafka_sasl_oauthbearer_token_endpoint_url",
        ),
        ({"SSL_CRLFILE": "/crl.pem"}, "revoked certificates"),
        ({"SESSION_TIMEOUT_MS": "soon"}, "milliseconds"),
        ({"SERVER_TLS_CLIENT_AUTH": "perhaps"}, "tls_client_auth"),
    ],
)
def test_what_karapace_has_and_we_have_not_is_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        of_karapace(given)
    assert says in str(caught.value)
    assert all(f"KARAPACE_{name}" in str(caught.value) for name in [*given][-1:])


def of_karapace(given: dict[str, str]) -> Loaded:
    given = {"BOOTSTRAP_URI": "kafka:9092", **given}
    return load(environment={f"KARAPACE_{name}": value for name, value in given.items()})


def test_the_authorities_of_client_certificates_count_where_karapace_asks_for_certificates(
    tmp_path: Path,
) -> None:
    pem = tmp_path / "store.pem"
    pem.write_text("-----BEGIN PRIVATE KEY-----\n")
    given = {f"SERVER_TLS_{name}FILE": str(pem) for name in ("CERT", "KEY", "CA")}
    found = of_karapace(given | {"SERVER_TLS_CLIENT_AUTH": "optional"}).settings
    assert (found.tls_client_auth, found.tls_client_ca) == ("wanted", str(pem))
    assert of_karapace(given).settings.tls_client_ca == ""


def test_the_environment_of_karapace_becomes_ours(tmp_path: Path) -> None:
    pem = tmp_path / "store.pem"
    pem.write_text("-----BEGIN PRIVATE KEY-----\n")
    environment = {
        "KARAPACE_BOOTSTRAP_URI": "kafka:9092",
        "KARAPACE_TOPIC_NAME": "_schemas",
        "KARAPACE_HOST": "0.0.0.0",
        "KARAPACE_PORT": "8085",
        "KARAPACE_ADVERTISED_HOSTNAME": "me",
        "KARAPACE_SECURITY_PROTOCOL": "SASL_SSL",
        "KARAPACE_SASL_MECHANISM": "PLAIN",
        "KARAPACE_SASL_PLAIN_USERNAME": "sr",
        "KARAPACE_SASL_PLAIN_PASSWORD": SECRET,
        "KARAPACE_SSL_CAFILE": str(pem),
        "KARAPACE_SERVER_TLS_CERTFILE": str(pem),
        "KARAPACE_SERVER_TLS_KEYFILE": str(pem),
        "KARAPACE_SERVER_TLS_CLIENT_AUTH": "none",
        "KARAPACE_LOG_LEVEL": "WARN",
        "KARAPACE_KARAPACE_REGISTRY": "true",
        "KARAPACE_TAGS__APP": "Karapace",
        "KARAPACE_TOPIC_NAMES": "x",
    }
    found = load(environment=environment)
    settings = found.settings
    assert (settings.kafka, settings.topic, settings.log_level) == ("kafka:9092", "_schemas", "warning")
    assert (settings.listeners, settings.advertise) == ("https://0.0.0.0:8085", "http://me:8085")
    assert (settings.kafka_sasl_username, settings.kafka_sasl_password) == ("sr", SECRET)
    assert settings.tls_certificate == str(pem)
    assert "did you mean KARAPACE_TOPIC_NAME?" in "\n".join(found.warnings)


def test_no_secret_is_shown(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(
        BROKER + "kafkastore.security.protocol=SASL_PLAINTEXT\nkafkastore.sasl.mechanism=PLAIN\n"
        "kafkastore.bootstrap.servers=SASL_PLAINTEXT://a:1\nkafkastore.sasl.jaas.config=org."
        f'apache.kafka.common.security.plain.PlainLoginModule required username=u password="{SECRET}";\n'
        f"metadata.encoder.secret={SECRET}\nmetadata.encoder.secrets={SECRET}\n"
    )
    assert main(["check-config", "--properties", str(file), "--kafka-sasl-password", "other"]) == 0
    told = capsys.readouterr()
    assert SECRET not in told.out + told.err
    assert 'metadata_encoder_secret = "***"' in told.out
    assert f"# file {file}: metadata.encoder.secret" in told.out
    assert "metadata.encoder.secrets" in told.err


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "No such file"), (b"a=\\u00zz\n", "cannot be used"), (b"a" * 2**21, "too long")],
)
def test_an_unusable_file_is_reported(file: Path, content: bytes | None, says: str) -> None:
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match=says) as caught:
        load(properties=file)
    assert len(caught.value.problems) == 1


def test_the_environment_may_name_the_properties_file(file: Path) -> None:
    file.write_text(BROKER)
    assert load(environment={"REGISTRAR_PROPERTIES": str(file)}).settings.kafka == "127.0.0.1:9092"


def test_the_map_names_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "map"]) == 0
    told = capsys.readouterr().out
    for registry in (CONFLUENT, KARAPACE):
        assert all(f"\n{row.name} " in told for row in registry.rows)
    assert "thread.pool.max " in told
    assert "has no counterpart: " in told
