"""Settings: their sources, and the messages for invalid ones."""

from __future__ import annotations

import dataclasses
import pickle
import socket
import tomllib
from pathlib import Path

import pytest

from registry.__main__ import main
from registry.base.config.loading import Settings, SettingsError, as_toml, load, table
from registry.base.config.setting_types import Schedule
from registry.base.config.settings import PREFIX
from registry.base.config.sources import CLIENT_NAMES, sort_variables
from registry.base.processes.cores import usable_cores
from registry.host.public_server import api_settings
from registry.log.kafka.security import Security
from registry.security.gate import Oidc
from registry.security.watched_file import PoliciesFile

KAFKA = {"kafka": "127.0.0.1:9092"}


def problem(**given: object) -> str:
    """Return the only sentence with which ``load`` refuses."""
    with pytest.raises(SettingsError) as caught:
        load(**given)  # type: ignore[arg-type]
    assert len(caught.value.problems) == 1, caught.value.problems
    return caught.value.problems[0]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "registrar.toml"


def test_defaults_hold_where_nobody_says_anything() -> None:
    loaded = load()
    assert loaded.settings.listen == "127.0.0.1:8081"
    assert loaded.settings.body_bytes_max == 5 * 2**20
    assert 1 <= loaded.settings.readers <= 4
    assert set(loaded.origins.values()) == {"default"}


def test_later_sources_win(file: Path) -> None:
    file.write_text('listen = "127.0.0.1:1"\nreaders = 1\nqueue_max = 1\n')
    loaded = load(
        {"listen": "127.0.0.1:3"}, {"REGISTRAR_LISTEN": "127.0.0.1:2", "REGISTRAR_READERS": "2"}, file
    )
    assert (loaded.settings.listen, loaded.settings.readers, loaded.settings.queue_max) == (
        "127.0.0.1:3",
        2,
        1,
    )
    assert loaded.origins["listen"] == "flag --listen"
    assert loaded.origins["readers"] == "environment REGISTRAR_READERS"
    assert loaded.origins["queue_max"] == f"file {file}"
    assert loaded.origins["data"] == "default"


def test_the_environment_may_name_the_file(file: Path) -> None:
    file.write_text("readers = 3\n")
    assert load(environment={"REGISTRAR_CONFIG": str(file)}).settings.readers == 3


@pytest.mark.parametrize(
    ("flags", "environment", "origin"),
    [
        ({"readers": "0"}, {}, "flag --readers"),
        ({}, {"REGISTRAR_READERS": "0"}, "environment REGISTRAR_READERS"),
    ],
)
def test_no_readers_are_taken_as_one(flags: dict[str, str], environment: dict[str, str], origin: str) -> None:
    loaded = load(flags, environment)
    assert loaded.settings.readers == 1
    assert f"({origin}) is taken as 1" in "".join(loaded.warnings)


def service_links(service: str) -> dict[str, str]:
    """Return the variables that Kubernetes sets in every pod of a service's namespace."""
    name = service.upper().replace("-", "_")
    port = f"{name}_PORT_8081_TCP"
    return {
        f"{name}_SERVICE_HOST": "10.0.0.1",
        f"{name}_SERVICE_PORT": "8081",
        f"{name}_SERVICE_PORT_HTTP": "8081",
        f"{name}_PORT": "tcp://10.0.0.1:8081",
        port: "tcp://10.0.0.1:8081",
        f"{port}_PROTO": "tcp",
        f"{port}_PORT": "8081",
        f"{port}_ADDR": "10.0.0.1",
    }


@pytest.mark.parametrize(
    "service",
    ["registrar", "registrar-metrics", "registrar-1", "registrar-kafka", "registrar-listen"],
)
def test_the_name_of_no_service_stops_a_node(service: str) -> None:
    links = service_links(service)
    loaded = load(environment={"PATH": "/bin", **links})
    assert loaded.settings == Settings()
    assert set(loaded.ignored) == set(links)


def test_no_setting_is_taken_for_a_service() -> None:
    names = [setting.name for setting in table()]
    given = {setting.variable: "tcp://10.0.0.1:8081" for setting in table()}
    assert not sort_variables(given, PREFIX, names).ignored


def test_variables_of_client_commands_and_of_others_are_no_settings() -> None:
    """Those of the commands are used by them; others are told, because somebody may have meant something."""
    client = {f"REGISTRAR_{name}": "x" for name in sorted(CLIENT_NAMES)}
    loaded = load(environment={**client, "REGISTRAR_VERSION": "7", "REGISTRAR_IMAGE": "registrar"})
    assert loaded.settings == Settings()
    assert loaded.ignored == ("REGISTRAR_IMAGE", "REGISTRAR_VERSION")


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("REGISTRAR_KAFAK", "did you mean kafka?"),
        ("REGISTRAR_PEER_SECERT", "did you mean peer_secret?"),
        ("REGISTRAR_LISTEN_PORT", "did you mean listen?"),
        ("REGISTRAR_TOPICS", "did you mean topic?"),
        ("REGISTRAR_KAFKA_BOOTSTRAP_SERVERS", "known: kafka, kafka_client_id, "),
        ("REGISTRAR_DATA_DIRECTORY", "known: data"),
    ],
)
def test_what_was_meant_to_be_a_setting_is_refused(variable: str, hint: str) -> None:
    """A node that ignored it could start on an empty log of its own."""
    assert hint in problem(environment={variable: "x"})


@pytest.mark.parametrize(
    ("name", "word", "value"),
    [
        ("listen", "[::1]:8081", "[::1]:8081"),
        ("listen", "registry-1.example:80", "registry-1.example:80"),
        ("data", "/var/lib/registrar", Path("/var/lib/registrar")),
        ("readers", "7", 7),
        ("readers", 256, 256),
        ("readers", "auto", usable_cores()),
        ("access_log", "TRUE", True),
        ("access_log", False, False),
        ("body_bytes_max", "512 KiB", 512 * 1024),
        ("body_bytes_max", "1GiB", 2**30),
        ("body_bytes_max", 4096, 4096),
        ("body_bytes_max", "4096", 4096),
        ("request_timeout_s", "0.5", 0.5),
        ("request_timeout_s", 2, 2.0),
        ("compatibility", "full_transitive", "FULL_TRANSITIVE"),
        ("log_format", "JSON", "json"),
        ("advertise", "HTTP://Registry-1.example/", "http://registry-1.example:80"),
        ("advertise", "https://[::1]:8081", "https://[::1]:8081"),
        ("advertise", "", ""),
        ("peer_listen", "127.0.0.1:0", "127.0.0.1:0"),
        ("listeners", " http://a:1 , http://[::1]:2", "http://a:1,http://[::1]:2"),
        (
            "cors_origins",
            "https://a.example/, http://b.example:3000",
            "https://a.example,http://b.example:3000",
        ),
        ("cors_origins", "*", "*"),
        ("allowed_hosts", "registry.example, 10.0.0.1 ,[::1]", "registry.example,10.0.0.1,[::1]"),
        ("allowed_hosts", "*", "*"),
        ("trusted_proxies", "10.1.2.3/8, ::1", "10.0.0.0/8,::1/128"),
        ("webhooks_allow", "10.0.0.0/8, *.svc.local,hooks.example", "10.0.0.0/8,*.svc.local,hooks.example"),
    ],
)
def test_values_that_are_allowed(name: str, word: object, value: object) -> None:
    assert getattr(load(KAFKA | {name: word}).settings, name) == value  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        *[
            ("listen", word)
            for word in ("", ":8081", "localhost", "localhost:", "localhost:0", "localhost:65536")
        ],
        *[
            ("listen", word)
            for word in ("::1:8081", "[::zz]:8081", "a b:8081", "localhost:١٢٣", "-a:1", 8081)
        ],
        *[
            ("listeners", word)
            for word in ("a:1", "ftp://a:1", "http://a", "http://a:1/", "http://a:1,,", "http://")
        ],
        *[("data", word) for word in ("", " ", "a\0b", 7)],
        *[("readers", word) for word in ("-1", "257", "two", "AUTO", "", "1.5", "1_0", " 1", 1.0, True)],
        *[("access_log", word) for word in ("yes", "1", "", 1, 0)],
        *[("body_bytes_max", word) for word in ("5MB", "1023", "2GiB", "-1", "0x10", "1.5 MiB", True, 5.0)],
        *[("request_timeout_s", word) for word in ("nan", "inf", "0", "-1", "3601", "1s", "", True)],
        *[("compatibility", word) for word in ("BACKWARDS", "", None)],
        *[
            ("advertise", word)
            for word in ("a:80", "http://", "http://a/b", "ftp://a", "http://u@a", "http://a?")
        ],
        *[
            ("advertise", word)
            for word in ("http://a:0", "http://a:99999", "http://a b", "http://[::1", "http:a")
        ],
        *[("kafka", word) for word in ("a", "a:1,", "a:1;b:2", "PLAINTEXT://a:1", "a:0")],
        *[("zookeeper", word) for word in ("a", "a:1//b", "a:1/b/", "/b")],
        *[("topic", word) for word in ("", ".", "..", "a b", "x" * 250)],
        *[("election", word) for word in ("", "raft")],
        *[("cors_origins", word) for word in ("a.example", "https://a.example/page", ",")],
        *[("allowed_hosts", word) for word in ("registry.example:80", "a b", "a,,b", "http://a", 7)],
        *[("trusted_proxies", word) for word in ("10.0.0.0/33", "proxy.example", "10.0.0.1,", 7)],
        *[("webhooks_allow", word) for word in ("10.0.0.0/33", "10.0.0", "*", "a/b", "a,,b", 7)],
        *[
            ("console_oidc_issuer", word)
            for word in ("i/token", "ftp://i", "https://u:p@i", "https://i/#a", 7)
        ],
        *[("jwt_jwks", word) for word in (" ", "https://", "https://u:p@i/keys", "https://i/a b", "a\0b", 7)],
        *[("kafka_sasl_oauthbearer_extensions", word) for word in ("a", "a=1,", "auth=1", "a1=1", "a=ß", 7)],
        *[("peer_secret", word) for word in ("fifteen letters", "***", "sixteen letters!\nfifteen letters")],
        ("peer_secret", "\n".join(["sixteen letters!"] * 3)),
        *[("cluster_id", word) for word in ("", "a b", "a\n", "x" * 256)],
    ],
)
def test_values_that_are_refused(name: str, word: object) -> None:
    said = problem(flags={name: word})
    assert said.startswith(f"{name} = ")
    assert f"(flag --{name.replace('_', '-')}) is not allowed; allowed: " in said


def test_a_refusal_names_setting_value_origin_and_what_is_allowed(file: Path) -> None:
    file.write_text('log_format = "xml"\n')
    assert problem(file=file) == (
        f'log_format = "xml" (file {file}) is not allowed; allowed: one of console, json'
    )


def test_a_long_value_is_cut_in_the_message() -> None:
    assert len(problem(flags={"log_level": "x" * 100_000})) < 300


def test_unknown_names_refuse_and_suggest(file: Path) -> None:
    assert problem(environment={"REGISTRAR_LISTNE": "x"}) == (
        'unknown setting listne = "x" (environment REGISTRAR_LISTNE); did you mean listen?'
    )
    alike = problem(environment={"REGISTRAR_TLS_OF_OTHERS": "x"})
    assert "; known: tls_certificate, " in alike
    assert "listen" not in alike
    file.write_text('associations_rules = "next"\n')
    assert problem(file=file).endswith(f'(file {file}); "registrar serve --help-all" lists all')
    file.write_text("[server]\nlisten = 1\n")
    assert "unknown setting" in problem(file=file)
    assert "unknown setting" in problem(environment={"REGISTRAR_listen": "127.0.0.1:1"})


def test_everything_wrong_is_reported_at_once(file: Path) -> None:
    file.write_text('readers = "many"\nnonsense = 1\n')
    with pytest.raises(SettingsError) as caught:
        load({"listen": "x"}, {"REGISTRAR_DATA": ""}, file)
    names = [problem.removeprefix("unknown setting ").split()[0] for problem in caught.value.problems]
    assert names == ["readers", "nonsense", "data", "listen"]


def test_a_file_that_cannot_be_read(file: Path) -> None:
    assert problem(file=file) == f"the file {file} cannot be read: No such file or directory"
    file.write_text("listen =\n")
    assert "is not TOML" in problem(file=file)
    file.write_text("readers = " + "9" * 5000)
    assert "is not TOML" in problem(file=file)
    file.write_bytes(b"\xff")
    assert "is not TOML" in problem(file=file)


def test_settings_are_frozen_and_travel_to_other_processes() -> None:
    settings = load({"data": "/x"}).settings
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.readers = 1  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(settings)) == settings


@pytest.mark.parametrize(
    ("listen", "host", "port"), [("127.0.0.1:80", "127.0.0.1", 80), ("[::1]:8081", "::1", 8081)]
)
def test_host_and_port(listen: str, host: str, port: int) -> None:
    settings = load({"listen": listen}).settings
    assert settings.main_address[1:] == (host, port)


def test_settings_in_force_are_a_file_of_their_own(file: Path) -> None:
    loaded = load(
        {
            "data": 'odd "\\\x01 path',
            "idle_timeout_s": "0.25",
            "tombstone_retention_s": "1234567.5",
            "body_bytes_max": "7000",
        }
    )
    file.write_text(as_toml(loaded))
    again = load(file=file)
    assert again.settings == loaded.settings
    assert tomllib.loads(file.read_text()).keys() == {setting.name for setting in table()}


def test_check_config_prints_the_settings_and_their_origins(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRAR_LOG_FORMAT", "json")
    assert main(["check-config", "--readers", "3", "--access-log"]) == 0
    printed = capsys.readouterr().out
    assert 'log_format = "json"' in printed
    assert "# environment REGISTRAR_LOG_FORMAT" in printed
    assert "# flag --readers" in printed
    assert "access_log = true" in printed


def test_wrong_settings_refuse_every_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRAR_READERS", "-1")
    for command in ("check-config", "serve"):
        assert main([command]) == 1
        said = capsys.readouterr().err
        assert said.startswith('registrar: readers = "-1" (environment REGISTRAR_READERS) is not allowed')


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"election": "kafka"}, 'election = "kafka" (flag --election) is for several nodes'),
        ({"peer_listen": "127.0.0.1:9"}, 'peer_listen = "127.0.0.1:9" (flag --peer-listen) is for several'),
        ({"kafka_client_id": "x"}, 'kafka_client_id = "x" (flag --kafka-client-id) is for several nodes'),
        (KAFKA | {"election": "zookeeper"}, "needs zookeeper = HOST:PORT/path"),
        (KAFKA | {"zookeeper": "a:1"}, "is used only with election = zookeeper"),
        (KAFKA | {"zookeeper_auth": "u:p"}, "is used only with election = zookeeper"),
        (
            KAFKA | {"election": "zookeeper", "zookeeper": "a:1", "zookeeper_auth": "user"},
            "must be USER:PASSWORD",
        ),
        (KAFKA | {"primary": "http://a:1"}, "is used only with election = static"),
        (KAFKA | {"election": "static", "eligible": "false"}, "needs primary = URL to have a primary"),
        (KAFKA | {"peer_listen": "127.0.0.1:8081"}, "is the address of the HTTP API"),
        (KAFKA | {"peer_tls_key": __file__}, "also needs peer_tls_certificate and peer_tls_ca"),
        (KAFKA | {"kafka_ssl_key_password": "x"}, "is only for kafka_security_protocol = SSL"),
        (KAFKA | {"kafka_sasl_username": "x"}, "is only for kafka_security_protocol = SASL_SSL"),
        (
            KAFKA | {"kafka_security_protocol": "sasl_ssl", "kafka_sasl_mechanism": "plain"},
            "also needs kafka_sasl_username and kafka_sasl_password",
        ),
        (
            KAFKA | {"kafka_security_protocol": "ssl", "kafka_ssl_key_location": __file__},
            "also needs kafka_ssl_certificate_location",
        ),
        (
            KAFKA | {"kafka_security_protocol": "ssl", "kafka_ssl_ca_location": "/nowhere.pem"},
            'kafka_ssl_ca_location = "/nowhere.pem" (flag --kafka-ssl-ca-location) is not a file',
        ),
    ],
)
def test_settings_that_do_not_go_together(flags: dict[str, str], said: str) -> None:
    assert said in problem(flags=flags)


def test_all_that_do_not_go_together_are_reported_at_once(file: Path) -> None:
    file.write_text('kafka = "a:1"\nprimary = "http://b:1"\npeer_listen = "127.0.0.1:8081"\n')
    with pytest.raises(SettingsError) as caught:
        load({"zookeeper": "a:2"}, {}, file)
    assert sorted(said.split()[0] for said in caught.value.problems) == [
        "peer_listen",
        "primary",
        "zookeeper",
    ]


def test_a_loopback_address_may_be_advertised() -> None:
    assert load(KAFKA).settings.advertised_url == "http://127.0.0.1:8081"
    assert load(KAFKA | {"listen": "[::1]:8081"}).settings.advertised_url == "http://[::1]:8081"


def test_the_host_names_itself_where_it_listens_on_all_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getfqdn", lambda: "Host.Example")
    settings = load(KAFKA | {"listen": "0.0.0.0:8081"}).settings
    assert settings.advertised_url == "http://host.example:8081"
    assert load(KAFKA | {"advertise": "https://a.example"}).settings.advertised_url == "https://a.example:443"


def test_where_peers_come_in() -> None:
    assert load(KAFKA).settings.peer_address == ("127.0.0.1", 0)
    assert load(KAFKA | {"peer_listen": "[::1]:7000"}).settings.peer_address == ("::1", 7000)


def test_servers_and_path_of_zookeeper() -> None:
    settings = load(KAFKA | {"election": "zookeeper", "zookeeper": "a:1, b:2/registry/one"}).settings
    assert (settings.zookeeper_hosts, settings.zookeeper_chroot) == ("a:1,b:2", "/registry/one")
    settings = load(KAFKA | {"election": "zookeeper", "zookeeper": "a:1"}).settings
    assert (settings.zookeeper_hosts, settings.zookeeper_chroot) == ("a:1", "")


def test_the_kafka_client_goes_by_the_names_of_kafka(file: Path) -> None:
    file.write_text(
        '[kafka]\n"bootstrap.servers" = "a:1,b:2"\nsecurity.protocol = "SASL_SSL"\n'
        '"sasl.mechanism" = "SCRAM-SHA-512"\nsasl.username = "u"\nsasl.password = "p"\n'
        '"ssl.endpoint.identification.algorithm" = "none"\n'
    )
    loaded = load(file=file)
    assert loaded.settings.kafka == "a:1,b:2"
    assert loaded.settings.security == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "u",
        "sasl_password": "p",
        "sasl_password_file": "",
        "sasl_oauthbearer_token_endpoint_url": "",
        "sasl_oauthbearer_client_id": "",
        "sasl_oauthbearer_client_secret": "",
        "sasl_oauthbearer_client_secret_file": "",
        "sasl_oauthbearer_scope": "",
        "sasl_oauthbearer_extensions": "",
        "https_ca_location": "",
        "sasl_aws_region": "",
        "sasl_kerberos_service_name": "kafka",
        "ssl_ca_location": "",
        "ssl_certificate_location": "",
        "ssl_key_location": "",
        "ssl_key_password": "",
        "ssl_key_password_file": "",
        "ssl_endpoint_identification_algorithm": "",
        "client_id": "registrar",
    }
    assert loaded.origins["kafka_sasl_username"] == f"file {file}, [kafka] sasl.username"


def test_other_clients_names_lead_to_the_right_ones(file: Path) -> None:
    file.write_text('[kafka]\nsasl.jaas.config = "hidden"\n')
    assert problem(file=file) == (
        f"unknown setting sasl.jaas.config (file {file}, [kafka]); write sasl.username and sasl.password"
    )
    file.write_text("[kafka]\n'security.protocl' = 'SSL'\n")
    assert problem(file=file).endswith("write security.protocol")
    file.write_text("[kafka]\nlinger = 1\n")
    assert "known: bootstrap.servers, client.id" in problem(file=file)


def test_the_settings_of_snapshots_may_stand_in_a_table(file: Path) -> None:
    file.write_text('[snapshots]\nlocation = "s3://b/r"\nevery = 100000\nkeep = 5\nspark.master = "yarn"\n')
    settings = load(file=file).settings
    assert (settings.snapshots, settings.snapshots_every, settings.snapshots_keep) == (
        "s3://b/r",
        "100000",
        5,
    )
    assert (settings.snapshots_spark_master, settings.snapshots_location) == ("yarn", "s3://b/r")
    file.write_text('[snapshots]\nbuildr = "none"\n')
    assert problem(file=file) == f"unknown setting buildr (file {file}, [snapshots]); write builder"


def test_without_a_location_snapshots_are_within_the_data() -> None:
    assert load({"data": "/var/lib/registrar"}).settings.snapshots_location == "/var/lib/registrar/snapshots"


@pytest.mark.parametrize("word", ["100000", "6h", "100000,6h", "6h, 100000", "90s", "1d", "", 250])
def test_schedules_that_are_allowed(word: object) -> None:
    assert load({"snapshots_every": word}).settings.snapshots_every == str(word)  # type: ignore[dict-item]


@pytest.mark.parametrize("word", ["0", "0h", "6w", "h", "-1", "1.5h", "1h,2h", "5,6", "6h 5", True, 1.5])
def test_schedules_that_are_not(word: object) -> None:
    assert "a number of records" in problem(flags={"snapshots_every": word})


def test_a_schedule_counts_records_and_seconds() -> None:
    assert Schedule.parse("100000, 6h") == (100_000, 21_600)
    assert Schedule.parse("30m") == (0, 1800)
    assert Schedule.parse("") == (0, 0)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("s3://key:hunter2@bucket/registrar", "s3://key:***@bucket/registrar"),
        ("abfs://c@a/registrar?sv=1&sig=hunter2&se=2", "abfs://c@a/registrar?sv=1&sig=***&se=2"),
        ("abfs://c@a/registrar?AccountKey=hunter2", "abfs://c@a/registrar?AccountKey=***"),
        ("s3://bucket/r?access_key=a&secret_key=hunter2", "s3://bucket/r?access_key=***&secret_key=***"),
    ],
)
def test_a_secret_in_a_location_is_refused_and_not_printed(given: str, shown: str) -> None:
    told = problem(flags={"snapshots": given})
    assert told.startswith(f'snapshots = "{shown}" (flag --snapshots) is not allowed')


def test_secrets_are_never_printed(capsys: pytest.CaptureFixture[str]) -> None:
    sasl = {
        "kafka_security_protocol": "SASL_SSL",
        "kafka_sasl_mechanism": "PLAIN",
        "kafka_sasl_username": "u",
    }
    flags = KAFKA | sasl | {"kafka_sasl_password": "hunter2", "peer_secret": "hunter2" * 3}
    loaded = load(flags)
    assert loaded.settings.kafka_sasl_password == "hunter2"
    assert "hunter2" not in as_toml(loaded) + repr(loaded)
    assert 'kafka_sasl_password = "***"' in as_toml(loaded)
    for wrong in (
        {"kafka_sasl_pasword": "hunter2"},
        {"peer_secret": "hunter2"},
        {"kafka_sasl_password": "hunter2"},
        {"zookeeper_auth": "u:hunter2\0"},
    ):
        assert "hunter2" not in problem(flags=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["serve", "--help"], ["check-config", "--help"], ["log", "reseed", "--help"], ["--version"]],
)
def test_help_and_version(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(arguments) == 0
    assert "registrar" in capsys.readouterr().out


def test_help_lists_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help-all"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for setting in table():
        assert setting.flag in printed
        assert setting.does in printed


def test_a_reseed_needs_a_topic_and_a_store(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["log", "reseed"]) == 1
    assert capsys.readouterr().err == (
        "registrar: log reseed writes to a Kafka topic: give --kafka HOST:PORT\n"
    )
    assert main(["log", "reseed", "--kafka", "127.0.0.1:1", "--dry-run"]) == 1
    assert capsys.readouterr().err == "registrar: there is no store in data/store\n"


def test_a_secret_may_come_from_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("sixteen characters\n")
    loaded = load({**KAFKA, "peer_secret_file": str(secret)})
    assert loaded.settings.peer_secret == "sixteen characters"
    assert loaded.origins["peer_secret"] == "peer_secret_file (flag --peer-secret-file)"
    assert "sixteen characters" not in as_toml(loaded)


def test_the_secret_of_the_nodes_may_stand_before_the_one_that_it_replaces(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a new secret of nodes\r\n\nthe old one of nodes\n", newline="")
    loaded = load({**KAFKA, "peer_secret_file": str(secret)})
    assert loaded.settings.peer_secret == "a new secret of nodes\nthe old one of nodes"


def test_every_secret_may_come_from_a_file() -> None:
    named = {setting.name for setting in table()}
    assert {f"{setting.name}_file" for setting in table() if setting.kind.secret} <= named


@pytest.mark.parametrize("content", [b"", b"\n", b"short\n", b"\xff" * 20, b"a" * 70_000])
def test_a_file_without_a_secret_is_refused_and_not_shown(tmp_path: Path, content: bytes) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(content)
    said = problem(flags={**KAFKA, "peer_secret_file": str(secret)})
    assert "at least 16 characters" in said
    assert "short" not in said


def test_a_secret_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    said = problem(flags={**KAFKA, "peer_secret_file": str(tmp_path / "none")})
    assert "No such file" in said
    assert str(tmp_path / "none") in said


def test_a_secret_is_given_once(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("sixteen characters")
    given = {**KAFKA, "peer_secret_file": str(secret)}
    said = problem(flags=given, environment={"REGISTRAR_PEER_SECRET": "another of sixteen"})
    assert "give only one of them" in said
    assert "another of sixteen" not in said


def test_the_kafka_client_knows_a_secret_and_its_file_which_may_change(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("password")
    flags = {
        **KAFKA,
        "kafka_security_protocol": "SASL_PLAINTEXT",
        "kafka_sasl_mechanism": "PLAIN",
        "kafka_sasl_username": "user",
        "kafka_sasl_password_file": str(secret),
    }
    security = Security(**load(flags).settings.security)
    assert security.secret("sasl_password") == "password"
    secret.write_text("renewed\n")
    assert security.secret("sasl_password") == "renewed"
    for broken in ("", "x" * 100_000):
        secret.write_text(broken)
        assert security.secret("sasl_password") == "password"
    secret.unlink()
    assert security.secret("sasl_password") == "password"
    assert Security(sasl_password="given").secret("sasl_password") == "given"


HTTPS = {"listeners": "https://a:1", "tls_certificate": __file__, "tls_key": __file__}


def test_listeners_replace_listen() -> None:
    one = load(HTTPS).settings
    assert one.advertised_url == "https://a:1"
    two = load(HTTPS | {"listeners": "https://a:1,http://[::1]:2"}).settings
    assert [str(each) for each in two.addresses] == ["https://a:1", "http://[::1]:2"]
    assert two.advertised_url == "http://[::1]:2"
    assert not load({"listeners": "http://a:1"}).settings.https
    assert load(KAFKA | {"listeners": "http://[::1]:2"}).settings.peer_address == ("::1", 0)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"listen": "a:1", "listeners": "http://b:1"}, "give only one of them"),
        ({"listeners": "https://a:1"}, "also needs tls_certificate and tls_key, or tls_keystore"),
        ({"tls_key": __file__}, "needs an https listener"),
        ({"listeners": "http://a:1,https://a:1"}, "two listeners have the same address"),
        (HTTPS | {"tls_client_auth": "wanted"}, "also needs tls_client_ca"),
        (HTTPS | {"tls_client_ca": __file__}, "is used only with tls_client_auth = wanted or required"),
        (HTTPS | {"tls_keystore_password": "x"}, "is only for tls_keystore"),
        (HTTPS | {"tls_key": "", "tls_keystore": __file__}, "give only one of them"),
        (HTTPS | {"tls_key": "/nowhere"}, "is not a file"),
        (KAFKA | {"listeners": "http://a:1,http://b:2", "peer_listen": "b:2"}, "address of the HTTP API"),
    ],
)
def test_listeners_and_tls_that_do_not_go_together(flags: dict[str, str], said: str) -> None:
    assert said in problem(flags=flags)


TOKENS = {"jwt_jwks": "https://i/keys", "jwt_issuer": "https://i", "jwt_audience": "registry"}
OIDC = TOKENS | {"console_oidc_client_id": "console"}


def test_the_console_s_issuer_is_that_of_tokens_unless_named() -> None:
    version, policies = "1", PoliciesFile("")
    for more, issuer in (({}, "https://i"), ({"console_oidc_issuer": "https://o/x"}, "https://o/x")):
        found = api_settings(load(OIDC | more).settings, version, policies).sign_in.oidc
        assert found == Oidc(issuer, "console", "openid", "", "access")
    assert api_settings(load(TOKENS).settings, version, policies).sign_in.oidc is None


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"console_oidc_client_id": "console"}, "also needs jwt_jwks"),
        ({"snapshots_old_key": "k" * 32}, "also needs snapshots_key"),
        (OIDC | {"jwt_issuer": "no-url"}, "also needs console_oidc_issuer"),
        (OIDC | {"console_oidc_scopes": "profile"}, "must contain openid"),
        (OIDC | {"console_oidc_origins": "*"}, "must name the origins"),
        (OIDC | {"console_oidc_token": "refresh"}, "console_oidc_token"),
        ({"console_oidc_audience": "a"}, "is used only with console_oidc_client_id"),
    ],
)
def test_settings_of_the_console_s_sign_in_that_do_not_go_together(flags: dict[str, str], said: str) -> None:
    assert said in problem(flags=flags)
