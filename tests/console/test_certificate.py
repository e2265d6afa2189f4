"""A browser with a certificate: who it is, and what the rules permit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.api.permitting import rule
from tests.support.certificates import Authority
from tests.support.running import Registry, free_port

from .browsing import Watch


class Site(Registry):
    """A registry that wants certificates of clients, and the certificates of two."""

    def __init__(self, folder: Any) -> None:
        self.folder, self.authority, self.secure = folder, Authority(), free_port()
        ca = self.authority.write(folder, "ca")
        certificate, key = self.authority.issue().write(folder, "server")
        rules = folder / "rules.toml"
        rules.write_text(rule("root", "admin", "*") + rule("alice", "reader", "*"))
        plain = free_port()
        super().__init__(
            folder / "data",
            *("--listeners", f"http://127.0.0.1:{plain},https://127.0.0.1:{self.secure}"),
            *("--tls-certificate", str(certificate), "--tls-key", str(key)),
            *("--tls-client-auth", "required", "--tls-client-ca", str(ca), "--rules", str(rules)),
            *("--tls-principal-rules", "RULE:^CN=(.*)$/$1/"),
            *("--readers", "1", "--snapshots-builder", "none"),
            port=plain,
        )

    @property
    def origin(self) -> str:
        return f"https://localhost:{self.secure}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    running = Site(tmp_path_factory.mktemp("certificate"))
    running.wait()
    yield running
    assert running.stop() == 0, running.output


@pytest.fixture
def watch(site: Site) -> Iterator[Watch]:
    watch = Watch(site.origin)
    yield watch
    watch.check()


def opened_by(name: str, address: str, site: Site, watch: Watch, browser: Browser) -> Page:
    certificate, key = site.authority.issue(f"CN={name}").write(site.folder, name)
    page = watch.page(
        browser,
        ignore_https_errors=True,
        client_certificates=[{"origin": site.origin, "certPath": certificate, "keyPath": key}],
    )
    page.goto(f"{site.origin}/ui/#{address}")
    return page


def test_the_principal_of_a_certificate_is_shown_and_bound_by_the_rules(
    site: Site, watch: Watch, browser: Browser
) -> None:
    watch.allow("status of 403 ")
    page = opened_by("alice", "/cluster/snapshots", site, watch, browser)
    user = page.locator("header .user")
    expect(user).to_contain_text("alice")
    expect(user).to_contain_text("read only")
    expect(page.get_by_role("button", name="Sign out")).to_have_count(0)
    expect(page.get_by_role("alert")).to_contain_text("You do not have permission to see this")
    build = page.get_by_role("button", name="Build a snapshot")
    expect(build).to_be_disabled()
    expect(build).to_have_accessible_description("alice lacks permission: this requires admin on everything.")
    page.context.close()


def test_an_administrator_is_known_by_a_certificate(site: Site, watch: Watch, browser: Browser) -> None:
    page = opened_by("root", "/cluster/snapshots", site, watch, browser)
    expect(page.locator("header .user")).to_contain_text("root")
    expect(page.get_by_text("No snapshots yet")).to_be_visible()
    expect(page.get_by_role("button", name="Build a snapshot")).to_be_enabled()
    page.context.close()
