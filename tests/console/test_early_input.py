"""Input in the very moment that something is shown, before the browser has painted it, counts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from .places import Place

Early = Callable[[str, str, str], Page]

# Runs an action on the first element that matches, as soon as it is in the page.
AT_ONCE = """([selector, action]) => {
  const acts = {
    type: (element, text) => {
      element.value = text;
      element.dispatchEvent(new Event("input", { bubbles: true }));
    },
    press: (element, key) => element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })),
    leave: (element, address) => { location.hash = address; },
  };
  const [name, value] = action;
  const observer = new MutationObserver(() => {
    const element = document.querySelector(selector);
    if (!element) return;
    observer.disconnect();
    acts[name](element, value);
  });
  observer.observe(document, { childList: true, subtree: true });
}"""


@pytest.fixture(scope="module")
def served(shared: Place) -> Place:
    return shared


@pytest.fixture
def early(browser, watch, served):
    """Return a function that opens an address and acts on the first element that matches a selector."""
    pages: list[Page] = []

    def open_page(address: str, selector: str, *action: str) -> Page:
        page = watch.page(browser)
        pages.append(page)
        page.add_init_script(f"({AT_ONCE})({json.dumps([selector, action])})")
        page.goto(f"{served.url}/ui/#{address}")
        return page

    yield open_page
    for page in pages:
        page.context.close()


def test_a_subject_typed_at_once_is_kept(early) -> None:
    page = early("/try", "label.subject input", "type", "early-value")
    field = page.get_by_label("Subject", exact=True)
    expect(page).to_have_url(f"{page.url.partition('#')[0]}#/try?subject=early-value")
    expect(field).to_have_value("early-value")


def test_an_id_typed_at_once_is_kept(early) -> None:
    page = early("/lookup", ".lookup input", "type", "4711")
    field = page.get_by_label("Id or guid")
    expect(field).to_be_focused()
    expect(field).to_have_value("4711")


def test_a_key_pressed_at_once_is_heard(early) -> None:
    page = early("/subjects", "header.shell", "press", "?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()


def test_a_link_followed_at_once_leads_to_its_page(early) -> None:
    page = early("/subjects", "header.shell", "leave", "#/lookup")
    expect(page).to_have_title("Look up an id · Registrar")


def test_what_is_typed_after_a_change_of_the_type_is_kept(opened) -> None:
    """The editor is made again for another type, and must not come back with what it held before."""
    page = opened("/try")
    editor = page.get_by_role("textbox", name="Schema")
    expect(editor).to_contain_text("record")
    page.evaluate(
        """async () => {
          const select = [...document.querySelectorAll("select")].find((each) => each.value === "AVRO");
          select.value = "PROTOBUF";
          select.dispatchEvent(new Event("change", { bubbles: true }));
          for (let turn = 0; turn < 20; turn += 1) await null; // renders, and no more
          const content = document.querySelector(".editor").shadowRoot.querySelector(".cm-content");
          content.focus();
          getSelection().collapse(content.lastElementChild, 0);
          document.execCommand("insertText", false, "// early");
        }"""
    )
    expect(page.get_by_role("status").filter(has_text="Valid")).to_be_visible()
    expect(editor).to_contain_text("message Order")
    expect(editor).to_contain_text("// early")


@pytest.mark.parametrize(
    ("address", "label"),
    [("/try", "Subject"), ("/activity", "Subjects with the prefix"), ("/cluster/audit", "Principal")],
)
def test_what_is_typed_while_an_earlier_text_comes_into_force_is_kept(opened, watch, address, label) -> None:
    """The address changes at the end of a pause, and the page shows it a moment later."""
    watch.allow("Failed to load resource")  # this registry has no audit log
    page = opened(address)
    field = page.get_by_label(label, exact=True)
    expect(field).to_be_visible()
    field.evaluate(
        """(field) => {
          const type = (text) => {
            field.value = text;
            field.dispatchEvent(new Event("input", { bubbles: true }));
          };
          const replace = history.replaceState;
          history.replaceState = function (...values) {
            history.replaceState = replace;
            replace.apply(history, values);
            type("early-value");
          };
          type("early");
        }"""
    )
    expect(page).to_have_url(re.compile("=early-value"))
    expect(field).to_have_value("early-value")
    page.go_back()
    page.go_forward()
    expect(field).to_have_value("early-value")


@pytest.mark.parametrize(
    ("address", "label", "name"),
    [
        ("/try", "Subject", "subject"),
        ("/activity", "Subjects with the prefix", "q"),
        ("/cluster/audit", "Principal", "principal"),
    ],
)
def test_back_discards_what_was_typed_and_does_not_count_yet(opened, watch, address, label, name) -> None:
    watch.allow("Failed to load resource")  # this registry has no audit log
    page = opened(f"{address}?{name}=first")
    page.clock.install()
    field = page.get_by_label(label, exact=True)
    expect(field).to_have_value("first")
    page.evaluate("(address) => { location.hash = address; }", f"#{address}?{name}=second")
    expect(field).to_have_value("second")
    page.clock.pause_at(page.evaluate("Date.now() + 1000"))
    field.fill("pending")
    page.go_back()
    expect(field).to_have_value("first")
    page.clock.run_for(5000)  # longer than any pause
    expect(field).to_have_value("first")
    assert page.url.endswith(f"#{address}?{name}=first")


def test_a_click_on_a_link_is_not_undone_by_what_was_typed_before(opened) -> None:
    """The search is written into the address when it pauses, which may be just after a click."""
    page = opened("/subjects")
    expect(page.get_by_label("Search subjects")).to_be_visible()
    page.evaluate(
        """async () => {
          const { moduleOf } = await import(document.querySelector("script[type=module]").src);
          const { navigate } = moduleOf("router.js");
          location.hash = "#/lookup";
          navigate("/subjects?q=typed", { replace: true });
        }"""
    )
    expect(page).to_have_title("Look up an id · Registrar")
    assert page.url.endswith("#/lookup")
