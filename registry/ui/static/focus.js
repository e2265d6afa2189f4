// The browser forgets the focus if its element is disabled, such as while a request runs, or removed, such as a row of
// a table. It then goes back there, or to what was around it.

/** @type {HTMLElement[]} */
let path = []; // what had the focus last, and what is around it; empty if the user has left it

/** Keep the focus from now on. */
export function keepFocus() {
  addEventListener("focusin", ({ target }) => { path = pathOf(/** @type {HTMLElement} */ (target)); });
  addEventListener("focusout", () => queueMicrotask(() => {
    if (isAtNothing() && path.length && path[0].isConnected && !path[0].matches(":disabled")) path = [];
  }));
  const changes = { subtree: true, childList: true, attributeFilter: ["disabled"] };
  new MutationObserver(restore).observe(document.body, changes);
}

function pathOf(element) {
  const found = [];
  for (let each = element; each !== null && each !== document.body; each = each.parentElement) found.push(each);
  return found;
}

function isAtNothing() {
  return document.activeElement === document.body;
}

function restore() {
  if (!path.length || !isAtNothing()) return;
  const [own, ...around] = path;
  if (own.isConnected) {
    own.focus({ preventScroll: true }); // does nothing while it is disabled
    return;
  }
  const place = around.find((each) => each.isConnected && each.hasAttribute("tabindex") && each.localName !== "main")
    ?? document.querySelector("main h1");
  if (place === null) return;
  if (!place.hasAttribute("tabindex")) place.tabIndex = -1;
  place.focus({ preventScroll: true });
}
