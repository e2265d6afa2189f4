// Tabs with one panel shown at a time; arrows move between them.
import { html, useEffect, useId, useRef } from "../vendor.js";

/** tabs: [{ id, label, content: () => … }]; selected: the id of one; onSelect(id). */
export function Tabs({ label, tabs, selected, onSelect }) {
  const id = useId();
  const list = useRef();
  const at = Math.max(0, tabs.findIndex((tab) => tab.id === selected));
  // On a narrow screen not all tabs are visible.
  useEffect(() => {
    const { offsetLeft, clientWidth, children } = list.current;
    list.current.scrollLeft = children[at].offsetLeft + children[at].offsetWidth - offsetLeft - clientWidth;
  }, [at]);
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = (at + step + tabs.length) % tabs.length;
    list.current.children[next].focus();
    onSelect(tabs[next].id);
  };
  return html`
    <div class="tabs" role="tablist" aria-label=${label} ref=${list} onKeyDown=${move}>
      ${tabs.map((tab, index) => html`
        <button key=${tab.id} role="tab" id=${`${id}-${tab.id}`} aria-controls=${`${id}-panel`}
          aria-selected=${index === at}
          tabindex=${index === at ? 0 : -1} onClick=${() => onSelect(tab.id)}>${tab.label}</button>`)}
    </div>
    <div role="tabpanel" id=${`${id}-panel`} aria-labelledby=${`${id}-${tabs[at].id}`} tabindex="0">
      ${tabs[at].content()}</div>`;
}
