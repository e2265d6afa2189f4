"""Findings about a host, by the settings of its node."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

from registry.base.config.settings import Settings
from registry.base.processes import file_lock
from registry.cli.doctor import Severity
from registry.cli.doctor.host import _disk, _files_of_others, examine_host
from registry.store import layout
from tests.support.certificates import Authority


def found(settings: Settings, severity: Severity) -> list[str]:
    return [f"{each.about}: {each.text}" for each in examine_host(settings) if each.severity is severity]


def store(data: Path, size: int) -> None:
    """Make a folder like that of a store which uses ``size`` bytes."""
    folder = data / "store" / f"{layout.PREFIX}1"
    folder.mkdir(parents=True)
    (data / "store" / layout.CURRENT).write_text(f"{folder.name} the-log\n")
    (folder / "data.mdb").write_bytes(b"x" * size)


def test_a_data_folder_that_a_node_will_create_is_fine(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "not" / "yet")
    assert (
        found(settings, Severity.FINE)[0] == f"data: {tmp_path}/not/yet does not exist yet; a node creates it"
    )
    assert not found(settings, Severity.ERROR)
    assert not (tmp_path / "not").exists()


def test_a_file_in_place_of_the_data_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    assert found(Settings(data=tmp_path / "data"), Severity.ERROR) == [
        f"data: {tmp_path}/data is not a folder"
    ]


def test_a_data_folder_that_cannot_be_examined_is_unknown(tmp_path: Path) -> None:
    data = tmp_path / ("x" * 300)
    assert found(Settings(data=data), Severity.UNKNOWN) == [
        f"data: {data} cannot be examined: File name too long"
    ]


def test_the_process_that_has_the_store_open_is_named(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    settings = Settings(data=tmp_path)
    lock = file_lock.hold(tmp_path / "store" / "lock")
    assert f"data: process {os.getpid()} has the store open" in found(settings, Severity.FINE)
    os.close(lock)
    assert "data: no process has the store open" in found(settings, Severity.FINE)


def test_a_store_that_is_almost_full_is_a_warning(tmp_path: Path) -> None:
    store(tmp_path, 20 << 20)
    [full] = found(Settings(data=tmp_path, store_map_bytes=24 << 20), Severity.WARNING)
    assert full == "data: the store uses 20 MiB of store_map_bytes = 24 MiB"
    assert not found(Settings(data=tmp_path, store_map_bytes=64 << 20), Severity.WARNING)


def test_a_disk_without_space_for_the_store_once_more_is_a_warning(tmp_path: Path) -> None:
    [low] = _disk(tmp_path, 1 << 60)
    assert low.severity is Severity.WARNING
    assert "to rebuild the store or build a snapshot, 2147483648.0 GiB should be" in low.text
    [enough] = _disk(tmp_path, 0)
    assert enough.severity is Severity.FINE


def test_files_of_another_user_than_that_of_the_folder_are_found(tmp_path: Path) -> None:
    store(tmp_path, 1)
    assert not _files_of_others(tmp_path, os.geteuid())
    assert tmp_path / "store" / f"{layout.PREFIX}1" / "data.mdb" in _files_of_others(
        tmp_path, os.geteuid() + 1
    )


def test_certificates_that_expire_soon_or_cannot_be_used_are_found(tmp_path: Path) -> None:
    certificate, key = Authority().issue(ends=dt.timedelta(days=3)).write(tmp_path, "server")
    https = {"listeners": "https://127.0.0.1:8443", "tls_certificate": str(certificate)}
    [soon] = found(Settings(data=tmp_path, **https, tls_key=str(key)), Severity.WARNING)
    assert soon.startswith("certificates: ")
    assert "a certificate expires on" in soon
    [unusable] = found(Settings(data=tmp_path, **https, tls_key=str(certificate)), Severity.ERROR)
    assert unusable.startswith("files: ")


def test_ports_that_others_can_reach_unprotected_are_a_warning(tmp_path: Path) -> None:
    [told] = found(Settings(data=tmp_path, listen="0.0.0.0:8081"), Severity.WARNING)
    assert told.startswith("access: other machines can reach")
