"""The console's frame: pages, theme, keyboard help, and CodeMirror under the content security policy."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.support.running import until

from .browsing import Watch, check_accessible

MADE = "const made = (name, members) => Object.assign(document.createElement(name), members)"
# What a page that was tampered with might try.
ATTACKS = {
    "connect-src": "fetch('http://elsewhere.example/').catch(() => {})",
    "img-src": "new Image().src = 'http://elsewhere.example/x.png'",
    "style-src": "document.head.append(made('style', {textContent: 'a{}'}))",
    "require-trusted-types-for": "document.body.innerHTML = '<b>x</b>'",
    "eval": "eval('1')",
    "error in the page": "setTimeout(() => { throw new Error('thrown') })",
    "console: logged": "console.error('logged')",
    "changed what it had not looked at": "fetch('../config/unseen', {method: 'DELETE'})",
    "base-uri": "document.head.append(made('base', {href: '//elsewhere.example/'}))",
    "form-action": "document.body.appendChild(made('form', {action: '/'})).submit()",
}


def test_an_empty_list_of_subjects_says_so(opened) -> None:
    page = opened()
    expect(page.get_by_role("status").get_by_text("No subjects yet")).to_be_visible()
    expect(page).to_have_title("Subjects · Registrar")
    check_accessible(page)


def test_what_no_page_may_do_is_refused_and_noticed(browser, served) -> None:
    watch = Watch(served.url)
    page = watch.page(browser)
    page.goto(f"{served.url}/ui/#/subjects")
    for fault, code in ATTACKS.items():
        watch.faults.clear()
        # Later, as a task of the page: what the test evaluates itself is not bound by the policy.
        page.evaluate(f"() => void setTimeout(() => {{ {MADE}; {code} }})")
        until(lambda fault=fault: noticed(page, watch, fault), 10, f"{fault} to be noticed")
        with pytest.raises(AssertionError):
            watch.check()
    page.context.close()


def noticed(page: Page, watch: Watch, fault: str) -> bool:
    page.evaluate("1")  # lets events arrive
    return any(fault in each for each in watch.faults)


def test_the_help_lists_the_keys_and_closes(opened) -> None:
    page = opened()
    expect(page.get_by_text("No subjects yet")).to_be_visible()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard")
    expect(dialog).to_contain_text("Go to Subjects")
    check_accessible(page)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.keyboard.press("g")
    page.keyboard.press("l")
    expect(page).to_have_title("Look up an id · Registrar")


def test_an_address_that_does_not_exist_is_reported(opened, watch: Watch) -> None:
    watch.allow("usage/census")  # there is none
    page = opened("/nothing/here")
    expect(page.get_by_role("alert")).to_contain_text("Page not found")
    page.get_by_role("link", name="Go to Home.").click()
    expect(page).to_have_title("Home · Registrar")
    page.go_back()
    expect(page).to_have_title("Page not found · Registrar")
    expect(page.locator("[aria-live=polite]").first).to_have_text("Page not found")


def test_the_theme_stays_as_chosen(opened) -> None:
    page = opened(color_scheme="light")
    page.get_by_label("Theme").select_option("dark")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
    page.get_by_label("Theme").select_option("auto")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark


def test_an_editor_is_styled_under_the_policy(opened) -> None:
    """Its style elements would be refused in the document; in a shadow root they are adopted."""
    page = opened()
    page.evaluate(
        """async () => {
          const folder = document.querySelector("script[type=module]").src.replace("bundles/app.js", "");
          const { Code } = await import(folder + "components/code.js");
          const { html, render } = await import(folder + "vendor.js");
          const element = document.body.appendChild(document.createElement("div"));
          render(html`<${Code} type="JSON" label="Schema" text='{"a": 1}' />`, element);
        }"""
    )
    expect(page.get_by_role("textbox", name="Schema")).to_contain_text('{"a": 1}')
    scroller = page.locator(".cm-scroller")
    assert scroller.evaluate("element => getComputedStyle(element).display") == "flex"


def test_all_files_are_one_route_of_the_metrics(opened, served) -> None:
    opened()
    line = re.compile(r'route="([^"]*ui[^"]*)"')
    assert {*line.findall(httpx.get(f"{served.url}/metrics").text)} == {"/ui"}
