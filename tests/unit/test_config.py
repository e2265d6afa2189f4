"""Settings: where they come from, what is refused and in which words."""

from __future__ import annotations

import dataclasses
import pickle
import tomllib
from pathlib import Path

import pytest

from registry.__main__ import main
from registry.config import Settings, SettingsError, as_toml, load, table


def problem(**given: object) -> str:
    """The one sentence with which ``load`` refuses."""
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
    file.write_text('listen = "127.0.0.1:1"\nreaders = 1\nid_batch = 1\n')
    loaded = load(
        {"listen": "127.0.0.1:3"}, {"REGISTRAR_LISTEN": "127.0.0.1:2", "REGISTRAR_READERS": "2"}, file
    )
    assert (loaded.settings.listen, loaded.settings.readers, loaded.settings.id_batch) == (
        "127.0.0.1:3",
        2,
        1,
    )
    assert loaded.origins["listen"] == "flag --listen"
    assert loaded.origins["readers"] == "environment REGISTRAR_READERS"
    assert loaded.origins["id_batch"] == f"file {file}"
    assert loaded.origins["data"] == "default"


def test_the_environment_may_name_the_file(file: Path) -> None:
    file.write_text("readers = 3\n")
    assert load(environment={"REGISTRAR_CONFIG": str(file)}).settings.readers == 3


def test_foreign_variables_are_no_settings() -> None:
    """Kubernetes sets these for a service called registrar."""
    environment = {
        "PATH": "/bin",
        "REGISTRAR_SERVICE_HOST": "10.0.0.1",
        "REGISTRAR_SERVICE_PORT": "8081",
        "REGISTRAR_SERVICE_PORT_HTTP": "8081",
        "REGISTRAR_PORT": "tcp://10.0.0.1:8081",
        "REGISTRAR_PORT_8081_TCP": "tcp://10.0.0.1:8081",
        "REGISTRAR_PORT_8081_TCP_ADDR": "10.0.0.1",
    }
    assert load(environment=environment).settings == Settings()


@pytest.mark.parametrize(
    ("name", "word", "value"),
    [
        ("listen", "[::1]:8081", "[::1]:8081"),
        ("listen", "registry-1.example:80", "registry-1.example:80"),
        ("data", "/var/lib/registrar", Path("/var/lib/registrar")),
        ("readers", "0", 0),
        ("readers", 0, 0),
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
    ],
)
def test_values_that_are_allowed(name: str, word: object, value: object) -> None:
    assert getattr(load({name: word}).settings, name) == value  # type: ignore[dict-item]


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
        *[("data", word) for word in ("", " ", "a\0b", 7)],
        *[("readers", word) for word in ("-1", "257", "two", "", "1.5", "1_0", " 1", 1.0, True)],
        *[("access_log", word) for word in ("yes", "1", "", 1, 0)],
        *[("body_bytes_max", word) for word in ("5MB", "1023", "2GiB", "-1", "0x10", "1.5 MiB", True, 5.0)],
        *[("request_timeout_s", word) for word in ("nan", "inf", "0", "-1", "3601", "1s", "", True)],
        *[("compatibility", word) for word in ("BACKWARDS", "", None)],
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
        'listne = "x" (environment REGISTRAR_LISTNE) is no setting; did you mean listen?'
    )
    file.write_text("[server]\nlisten = 1\n")
    assert "is no setting" in problem(file=file)
    assert "is no setting" in problem(environment={"REGISTRAR_listen": "127.0.0.1:1"})


def test_everything_wrong_is_told_at_once(file: Path) -> None:
    file.write_text('readers = "many"\nnonsense = 1\n')
    with pytest.raises(SettingsError) as caught:
        load({"listen": "x"}, {"REGISTRAR_DATA": ""}, file)
    assert [said.split()[0] for said in caught.value.problems] == ["readers", "nonsense", "data", "listen"]


def test_a_file_that_cannot_be_read(file: Path) -> None:
    assert problem(file=file) == f"the file {file} cannot be read: No such file or directory"
    file.write_text("listen =\n")
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
    assert (settings.host, settings.port) == (host, port)


def test_settings_in_force_are_a_file_of_their_own(file: Path) -> None:
    loaded = load({"data": 'odd "\\\x01 path', "idle_timeout_s": "0.25", "body_bytes_max": "7000"})
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
    "arguments", [["--help"], ["serve", "--help"], ["check-config", "--help"], ["--version"]]
)
def test_help_and_version(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    assert "registrar" in capsys.readouterr().out


def test_help_tells_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    printed = " ".join(capsys.readouterr().out.split())
    for setting in table():
        assert setting.flag in printed
        assert setting.variable in printed
        assert setting.does in printed
