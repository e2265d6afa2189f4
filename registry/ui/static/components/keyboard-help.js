// The help that "?" shows: every shortcut in force.
import { html } from "../vendor.js";
import { shortcutsInForce } from "../keys.js";
import { Dialog } from "./dialog.js";

const NAMES = {
  ArrowDown: "↓", ArrowUp: "↑", ArrowLeft: "←", ArrowRight: "→", Escape: "Esc", PageDown: "Page ↓", PageUp: "Page ↑",
};

export function KeyboardHelp({ onClose }) {
  return html`
    <${Dialog} title="Keyboard" onClose=${onClose}>
      ${shortcutsInForce().map(({ title, shortcuts }) => html`
        <h3>${title}</h3>
        <dl class="keys">${shortcuts.map(({ keys, does }) => html`<dt>${shown(keys)}</dt><dd>${does}</dd>`)}</dl>`)}
    <//>`;
}

function shown(keys) {
  return keys.split(" | ").map((alternative, index) => html`
    ${index > 0 && " or "}${alternative.split(" ").map((key) => html`<kbd>${NAMES[key] ?? key}</kbd> `)}`);
}
