// A modal dialog: the browser's own, which keeps the focus inside and closes by Escape.
import { html, useEffect, useId, useRef } from "../vendor.js";

/**
 * onClose: called after Escape or a click on Close; the parent then no longer shows the dialog. fixed: neither closes
 * it. The focus is on the first element with `autofocus`. Who follows a link or goes back leaves the dialog, too: it is
 * about the page that was shown.
 */
export function Dialog({ title, onClose, children, footer, fixed }) {
  const element = useRef();
  const shown = useRef(true);
  const id = useId();
  useEffect(() => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    const dialog = element.current;
    dialog.showModal();
    return () => {
      shown.current = false;
      dialog.close(); // until then, nothing around it can have the focus
      before?.focus?.();
    };
  }, []);
  useEffect(() => {
    const left = () => fixed || element.current.close();
    addEventListener("popstate", left);
    return () => removeEventListener("popstate", left);
  }, [fixed]);
  // The browser lets a page keep a dialog open only once, so the key itself is caught too.
  const keep = (event) => fixed && (event.type === "cancel" || event.key === "Escape") && event.preventDefault();
  return html`
    <dialog ref=${element} aria-labelledby=${id} onClose=${() => shown.current && onClose?.()}
      onKeyDown=${keep} onCancel=${keep}>
      <header>
        <h2 id=${id}>${title}</h2>
        ${!fixed && html`
          <button class="plain" aria-label="Close" onClick=${() => element.current.close()}>✕</button>`}
      </header>
      <div class="body">${children}</div>
      ${footer && html`<footer>${footer}</footer>`}
    </dialog>`;
}
