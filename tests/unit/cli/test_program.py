"""The framework of the command line: help, suggestions, completion, exit statuses, and what starts fast."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from registry.__main__ import main
from registry.base.config.loading import Loaded
from registry.cli.output import printable
from registry.cli.setting_flags import with_same_settings, with_settings
from registry.cli.verb import LazyVerbs, Verb
from registry.cli.verbs import VERBS
from tests.support.running import ROOT

# Lines of 100 columns on a usual screen.
SCREEN_LINES = 55
# Modules that no help may import: servers, stores, clients and builders.
HEAVY = {"asyncio", "httpx", "lmdb", "msgspec", "orjson", "pyarrow", "rich", "starlette", "uvloop"}


def verbs(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every verb below a group, with the words that name it."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from verbs(found, (*path, name))


EVERY_VERB = dict(verbs(LazyVerbs(VERBS)))


@pytest.mark.parametrize("words", EVERY_VERB, ids=" ".join)
def test_the_help_of_a_verb_fits_a_screen_and_reports_its_exit_status(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert isinstance(EVERY_VERB[words], Verb)
    assert main([*words, "--help"]) == 0
    printed = capsys.readouterr().out
    assert main([*words, "-h"]) == 0
    assert capsys.readouterr().out == printed
    assert len(printed.splitlines()) <= SCREEN_LINES
    assert "Exit status: 0" in printed or words == ("completion",)


@pytest.mark.parametrize("group", sorted({each[0] for each in EVERY_VERB if len(each) > 1}))
def test_the_help_of_a_group_is_not_cut(
    group: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([group, "-h"]) == 0
    printed = capsys.readouterr().out
    assert "..." not in printed.partition("Commands:")[2]
    assert len(printed.splitlines()) <= SCREEN_LINES


@pytest.mark.parametrize("words", EVERY_VERB, ids=" ".join)
def test_the_docs_list_the_exit_statuses_that_the_help_reports(words: tuple[str, ...]) -> None:
    _, told, statuses = (EVERY_VERB[words].epilog or "").partition("Exit status: ")
    if told:
        page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
        meaning = statuses.partition("\n")[0].removesuffix(".")
        rows = [line for line in page.splitlines() if line.endswith(f"| {meaning} |")]
        assert any(f"`{' '.join(words)}`" in row for row in rows), f"{' '.join(words)}: {meaning}"


def test_the_table_says_what_the_verbs_say() -> None:
    context = click.Context(LazyVerbs(VERBS))
    for row in VERBS:
        command = LazyVerbs(VERBS).get_command(context, row.name)
        assert command is not None
        assert command.name == row.name
        assert command.help
        assert row.does.endswith(".")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["serv"], "No such command 'serv'. (Did you mean one of: 'search', 'serve'"),
        (["snapshot", "biuld"], "No such command 'biuld'. Did you mean 'build'?"),
        (["serve", "--lissten", "x"], "No such option '--lissten'. (Did you mean one of: '--listen'"),
        (["serve", "--peer-secert", "x"], "'--peer-secret'"),
        (["snapshot", "build", "--watch", "--request", "x"], "give only one of --watch and --request"),
        ([], "Usage: registrar"),
        (["serve", "extra"], "unexpected extra argument"),
        (["completion", "tcsh"], "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
    ],
)
def test_wrong_usage_is_reported_with_a_suggestion(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert not printed.out


def test_a_next_command_repeats_the_settings_and_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    @click.command("v", cls=Verb)
    @with_settings("where", "cluster", "security", "storage")
    def verb(loaded: Loaded) -> int:
        assert loaded.settings.peer_secret
        print(with_same_settings("registrar serve"))
        return 0

    words = ["--kafka", "k:9092", "--data", "a b", "--peer-secret", "long enough, and not to be shown"]
    assert verb.main(words, standalone_mode=False) == 0
    printed = capsys.readouterr().out
    given = ["--kafka", "k:9092", "--data", "a b", "--peer-secret", "$REGISTRAR_PEER_SECRET"]
    assert sorted(shlex.split(printed)) == sorted(["registrar", "serve", *given])


@pytest.mark.parametrize("words", [["--help"], ["serve", "--help"], ["snapshot", "build", "--help"]])
def test_help_imports_no_server(words: list[str]) -> None:
    script = "import sys; from registry.__main__ import main; main(sys.argv[1:]); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert not HEAVY & {*done.stdout.split()}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert f"_REGISTRAR_COMPLETE={shell}_complete" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("registrar sn", {"snapshot"}),
        ("registrar snapshot ", {"build", "list", "verify", "restore", "diff", "export"}),
        ("registrar serve --kafka-sasl-me", {"--kafka-sasl-mechanism"}),
        ("registrar completion f", {"fish"}),
    ],
)
def test_verbs_and_options_are_completed(words: str, offered: set[str]) -> None:
    environment = os.environ | {
        "_REGISTRAR_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    command = [sys.executable, "-m", "registry"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT, check=False)
    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == offered


def test_output_that_nobody_reads_ends_a_verb_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command = [sys.executable, "-m", "registry", "serve", "--help-all"]
        done = subprocess.run(
            command, stdout=writing, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_control_characters_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[31mb\n\tc\u202e") == "a\\x1b[31mb\n\tc\\u202e"


def test_processes_of_a_registry_start_without_what_few_settings_need() -> None:
    script = "import sys; import registry.node.process, registry.reader.main; print(*sys.modules)"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = {*done.stdout.split()}
    # The Kafka client, webhooks' HTTP client, the encoder's ciphers, and the settings of other registries.
    assert not loaded & {"aiokafka", "httpcore", "cryptography", "registry.base.config.foreign.translation"}
