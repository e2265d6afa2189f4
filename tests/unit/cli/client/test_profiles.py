"""The file that names registries: what it may hold, and who may read and write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from registry.cli.client.addresses import is_profile
from registry.cli.client.connect import Profile, find_profile
from registry.cli.client.resources import BadAddress

GOOD = '[prod]\nurl = "https://r:1"\n'


def written(folder: Path, text: str, mode: int = 0o600) -> dict[str, str]:
    """Write the file of profiles; return the environment that names it."""
    file = folder / "r.toml"
    file.write_text(text)
    file.chmod(mode)
    return {"REGISTRAR_REGISTRIES": str(file), "HOME": str(folder)}


def test_a_name_stands_for_an_address_and_files_next_to_the_profiles(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\n")
    (tmp_path / "token").chmod(0o400)
    text = GOOD + 'ca = "ca.pem"\nkey = "/k"\ncertificate = "~/c"\ntoken_file = "token"\n'
    found = find_profile("@prod", written(tmp_path, text))
    assert found[:4] == ("https://r:1", f"{tmp_path}/ca.pem", f"{tmp_path}/c", "/k")
    assert found.credentials is not None
    assert (found.credentials.header, "abc" in found.credentials.shown) == ("Bearer abc", False)
    assert find_profile("@prod", written(tmp_path, GOOD)) == Profile("https://r:1")
    assert not is_profile("registry:8081")


def test_without_a_name_the_file_lies_among_the_configuration_of_the_user(tmp_path: Path) -> None:
    for environment in ({"HOME": "/h"}, {"XDG_CONFIG_HOME": "/h/.config", "HOME": "/x"}):
        with pytest.raises(
            BadAddress, match=r"there is no file /h/\.config/registrar/registries\.toml: write one"
        ):
            find_profile("@prod", environment)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "there is no registry 'prod' in .*; known registries: none"),
        ("prod = 1", "prod must be a table"),
        ("[prod", "is not TOML"),
        ("[prod]", "url must be a string"),
        ("[prod]\nurl = 1", "url must be a string"),
        (GOOD + 'password = "x"', "unknown key password; allowed are url, ca"),
        ('[prod]\nurl = "https://me:secret@r"', "must not hold credentials: name a file"),
        (GOOD + 'token_file = "gone"', "token_file names .*/gone, which is not a file"),
        (GOOD + 'token_file = "a"\nuser_file = "b"', "are both set: remove one of them"),
        (GOOD + 'token_file = "open"', "other users can read .*/open: run chmod go-rwx"),
        (GOOD + 'user_file = "closed"', "closed must hold NAME:PASSWORD"),
        (GOOD + 'token_file = "."', "cannot be read: Is a directory"),
    ],
)
def test_a_profile_that_cannot_be_used_is_reported_without_a_secret(
    tmp_path: Path, text: str, told: str
) -> None:
    for name, mode in (("open", 0o640), ("closed", 0o600)):
        (tmp_path / name).write_text("secret")
        (tmp_path / name).chmod(mode)
    with pytest.raises(BadAddress, match=told) as caught:
        find_profile("@prod", written(tmp_path, text))
    assert "secret" not in str(caught.value)


def test_a_file_that_others_can_write_says_nothing(tmp_path: Path) -> None:
    for mode in (0o620, 0o602):
        with pytest.raises(BadAddress, match=r"other users can write .*: run chmod go-rwx"):
            find_profile("@prod", written(tmp_path, GOOD, mode))
    assert find_profile("@prod", written(tmp_path, GOOD, 0o644)).url == "https://r:1"
