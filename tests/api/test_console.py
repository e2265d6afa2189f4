"""The console's files: types, caching, protection, and what is left to the API."""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from registry.base.config.loading import load as load_settings
from registry.host.public_server import console
from registry.ui.bundles import bundles_of
from registry.ui.console import BUNDLES, STATIC, Console, is_complete, load_files
from tests.api.driver import Api, Reply

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8", "upgrade-insecure-requests": "1"}

START_MAX = 60_000  # bytes, compressed, before the first list is shown


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the static folder, with bundles even if nobody has made them."""
    folder = tmp_path_factory.mktemp("ui") / "static"
    shutil.copytree(STATIC, folder, ignore=shutil.ignore_patterns("vendor*"))
    for name in BUNDLES:
        (folder / name).write_text("export {};")
    return folder


@pytest.fixture
def api(folder: Path) -> Iterator[Api]:
    with Api(console=Console(["https://sign-in.example"], folder)) as api:
        yield api


def assets(api: Api) -> str:
    """Return the folder that the page names."""
    return re.search(rb'src="([0-9a-f]{16})/bundles/app\.js"', api.get("/ui/").body)[1].decode()


def protected(reply: Reply) -> bool:
    return (
        reply.headers["x-content-type-options"] == "nosniff"
        and reply.headers["x-frame-options"] == "DENY"
        and reply.headers["referrer-policy"] == "no-referrer"
        and reply.headers["cross-origin-opener-policy"] == "same-origin"
        and "default-src 'none'; script-src 'self';" in reply.headers["content-security-policy"]
    )


def test_the_page_is_checked_at_every_visit_and_its_files_are_kept(api: Api) -> None:
    page = api.get("/ui/")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.headers["cache-control"] == "no-cache"
    assert protected(page)
    policy = page.headers["content-security-policy"]
    assert "connect-src 'self' https://sign-in.example;" in policy
    assert "unsafe" not in policy
    file = api.get(f"/ui/{assets(api)}/components/dialog.js")
    assert (file.status, file.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    assert "immutable" in file.headers["cache-control"]
    assert file.body == (STATIC / "components" / "dialog.js").read_bytes()
    assert protected(file)


def test_a_file_that_has_not_changed_is_not_sent_again(api: Api) -> None:
    etag = api.get("/ui/").headers["etag"]
    again = api.get("/ui/", **{"if-none-match": f'"other", {etag}'})
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", etag)
    assert api.get("/ui/", **{"if-none-match": '"other"'}).status == 200


def test_files_are_compressed_for_those_who_say_so(api: Api) -> None:
    plain = api.get("/ui/app.js")
    assert "content-encoding" not in plain.headers
    packed = api.get("/ui/app.js", **{"accept-encoding": "br;q=1, gzip;q=0.5"})
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert {plain.headers["vary"], packed.headers["vary"]} == {"accept-encoding"}
    refused = api.get("/ui/app.js", **{"accept-encoding": "gzip;q=0.0"})
    assert "content-encoding" not in refused.headers


def test_a_head_has_the_headers_alone(api: Api) -> None:
    whole, head = api.get("/ui/app.js"), api.request("HEAD", "/ui/app.js")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == whole.headers["content-length"] == str(len(whole.body))


def test_a_folder_of_another_version_is_served_but_not_kept(api: Api) -> None:
    """While nodes are upgraded, a page of one may ask another."""
    reply = api.get("/ui/0123456789abcdef/app.js")
    assert (reply.status, reply.headers["cache-control"]) == (200, "no-cache")


@pytest.mark.parametrize(
    "path",
    [
        *("/ui/nothing", "/ui/../console.py", "/ui/%2e%2e/console.py", "/ui/..%2fconsole.py"),
        *("/ui/x/../../console.py", "/ui/%00", "/ui//etc/passwd", "/ui/components", "/ui/components/"),
    ],
)
def test_nothing_else_is_served(api: Api, path: str) -> None:
    reply = api.get(path)
    assert (reply.status, reply.body) == (404, b"Not Found\n")
    assert protected(reply)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_files_are_only_read(api: Api, method: str) -> None:
    reply = api.request(method, "/ui/app.js")
    assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD")


def test_browsers_are_led_to_the_page_also_behind_a_prefix(api: Api) -> None:
    for path in ("/ui", "/"):
        reply = api.get(path, **BROWSER)
        assert (reply.status, reply.headers["location"]) == (307, "ui/")
    navigating = {"accept": "text/html", "sec-fetch-mode": "navigate"}
    assert api.get("/", **navigating).status == 307


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"accept": "*/*"},
        {"accept": "application/vnd.schemaregistry.v1+json"},
        # Java's HTTP client, when nothing else is set.
        {"accept": "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"},
    ],
)
def test_clients_get_the_root_as_ever(api: Api, headers: dict[str, str]) -> None:
    reply = api.get("/", **headers)
    assert (reply.status, reply.body) == (200, b"{}")


def test_it_can_be_turned_off() -> None:
    with Api() as api:
        assert api.get("/ui/").status == api.get("/ui").status == 404
        assert api.get("/", **BROWSER).body == b"{}"


def test_a_checkout_without_bundles_says_what_to_run(folder: Path, tmp_path: Path) -> None:
    static = tmp_path / "static"
    shutil.copytree(folder, static)
    (static / "vendor.js").unlink()
    with Api(console=Console(folder=static)) as api:
        page = api.get("/ui/")
        assert (page.status, page.headers["content-type"]) == (503, "text/html; charset=utf-8")
        assert b"make console" in page.body
        assert api.get("/subjects").status == 200


def test_the_frame_is_one_file_and_each_view_another(folder: Path) -> None:
    static = load_files(folder).files
    frame, view = (static[f"bundles/{name}"].body for name in ("app.js", "subjects/view.js"))
    for module in (b"vendor.js", b"shell.js", b"components/dialog.js"):
        assert b'define("%b"' % module in frame
        assert b'define("%b"' % module not in view
    assert b'define("subjects/rows.js"' in view
    assert b'import { define } from "../app.js";' in view
    assert not any(b'define("vendor-editor.js"' in file.body for file in static.values())


@pytest.mark.skipif(not is_complete(), reason="the libraries are not bundled")
def test_the_start_is_small() -> None:
    static = load_files().files
    first = ("index.html", "icon.svg", "bundles/app.js", "bundles/home/view.js")
    assert sum(len(static[name].packed) for name in first) <= START_MAX


@pytest.mark.parametrize(
    "line", ['export * from "./x.js";', "export const { a } = x;", 'import x from "./x.js";']
)
def test_a_module_that_a_bundle_cannot_hold_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=re.escape("app.js: bundles cannot hold")):
        bundles_of({"app.js": line.encode(), "x.js": b""})


def test_a_setting_turns_it_off() -> None:
    assert console(load_settings(environment={"REGISTRAR_CONSOLE": "off"}).settings) is None
    assert console(load_settings(environment={}).settings) is not None


def test_the_folder_is_named_by_all_files(folder: Path, tmp_path: Path) -> None:
    static = tmp_path / "static"
    shutil.copytree(folder, static)
    assert load_files(static).folder == load_files(folder).folder
    (static / "components" / "dialog.js").write_text("export {};")
    assert load_files(static).folder != load_files(folder).folder
