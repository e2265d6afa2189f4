// A modal dialog: the browser's own, which keeps the focus inside and closes by Escape.
import { html, useEffect, useId, useRef } from "../vendor.js";

/** onClose: called after Escape or a click on Close; the parent then no longer shows the dialog. */
export function Dialog({ title, onClose, children, footer }) {
  const element = useRef();
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    element.current.showModal();
    return () => before?.focus?.();
  }, []);
  return html`
    <dialog ref=${element} aria-labelledby=${id} onClose=${onClose}>
      <header>
        <h2 id=${id}>${title}</h2>
        <button class="plain" aria-label="Close" onClick=${() => element.current.close()}>✕</button>
      </header>
      <div class="body">${children}</div>
      ${footer && html`<footer>${footer}</footer>`}
    </dialog>`;
}
