"""Certificates that expire, in ``registrar check-config`` and in metrics."""

from __future__ import annotations

from pathlib import Path

import pytest

from registry.__main__ import main
from registry.base.config.loading import load
from registry.security.tls.expiry import ExpiryGauges
from tests.support.certificates import DAY, Authority


def flags(folder: Path, days: int, authority: Authority) -> dict[str, str]:
    certificate, key = authority.issue(ends=days * DAY).write(folder, "server")
    ca = authority.write(folder, "ca")
    return {
        "listeners": "https://127.0.0.1:8443",
        "tls_certificate": str(certificate),
        "tls_key": str(key),
        "tls_client_ca": str(ca),
        "tls_client_auth": "wanted",
    }


def check(given: dict[str, str]) -> int:
    words = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", value)]
    return main(["check-config", *words])


def test_check_config_warns_of_certificates_that_expire_soon(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(flags(tmp_path, 365, Authority(days=400))) == 0
    assert capsys.readouterr().err == ""
    assert check(flags(tmp_path, 10, Authority(days=20))) == 0
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(" = ")[0] for line in said] == [
        "registrar: warning: tls_certificate",
        "registrar: warning: tls_client_ca",
    ]
    assert ": a certificate expires on 20" in said[0]


def test_check_config_refuses_certificates_that_cannot_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = flags(tmp_path, 365, Authority(days=400))
    _, other = Authority().issue().write(tmp_path, "other")
    assert check(given | {"tls_key": str(other)}) == 2
    printed = capsys.readouterr()
    assert "does not belong to the certificate" in printed.err
    assert "tls_client_auth" in printed.out
    assert check(flags(tmp_path, -1, Authority())) == 2
    assert "the certificate expired on" in capsys.readouterr().err


def test_every_file_has_a_gauge_of_its_first_certificate_to_expire(tmp_path: Path) -> None:
    given = flags(tmp_path, 10, Authority(days=20))
    authorities = Path(given["tls_client_ca"])
    later = Authority(days=400).write(tmp_path, "later")
    authorities.write_bytes(later.read_bytes() + authorities.read_bytes())
    given |= {"kafka": "a:1", "peer_tls_certificate": given["tls_certificate"]}
    given |= {"peer_tls_key": given["tls_key"], "peer_tls_ca": given["tls_client_ca"]}
    gauges = ExpiryGauges(load(given).settings).samples()
    days = {each.labels[0]: each.value / DAY.total_seconds() for each in gauges}
    assert days == {
        "tls_certificate": pytest.approx(10, abs=0.1),
        "tls_client_ca": pytest.approx(20, abs=0.1),
        "peer_tls_certificate": pytest.approx(10, abs=0.1),
        "peer_tls_ca": pytest.approx(20, abs=0.1),
    }
    assert {each.name for each in gauges} == {"registrar_certificate_expiry_seconds"}
