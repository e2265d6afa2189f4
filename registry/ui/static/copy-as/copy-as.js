// A button that offers what a page shows as a command or a program to copy.
import { html, useState } from "../vendor.js";
import { CopyButton } from "../components/copy-button.js";
import { Dialog } from "../components/dialog.js";
import { Tabs } from "../components/tabs.js";
import { useSession } from "../session/session.js";
import { textsOf } from "./texts.js";

const REGISTRY = new URL("..", document.baseURI).href.replace(/\/$/, "");
const REMEMBERED = "registrar.copy-as";

/** what: see `textsOf`. */
export function CopyAs({ what, small }) {
  const [open, setOpen] = useState(false);
  return html`<button type="button" class=${small ? "small" : null} onClick=${() => setOpen(true)}>Copy as…</button>
    ${open && html`<${Texts} what=${what} onClose=${() => setOpen(false)} />`}`;
}

function Texts({ what, onClose }) {
  const { me } = useSession();
  const [chosen, setChosen] = useState(() => remembered());
  const choose = (id) => {
    setChosen(id);
    try {
      localStorage.setItem(REMEMBERED, id);
    } catch {
      // It is only a convenience.
    }
  };
  const tabs = textsOf(what, REGISTRY).map(({ id, label, text }) => ({
    id, label, content: () => html`
      <pre class="copied" tabindex="0">${text}</pre>
      <p><${CopyButton} text=${text} label=${`Copy for ${label}`} /></p>`,
  }));
  return html`
    <${Dialog} title="Copy as" onClose=${onClose}>
      <${Tabs} label="Languages" tabs=${tabs} selected=${chosen} onSelect=${choose} />
      ${me?.signIn.required && html`<p class="quiet">Credentials are left out: add yours.</p>`}
    <//>`;
}

function remembered() {
  try {
    return localStorage.getItem(REMEMBERED) ?? "curl";
  } catch {
    return "curl";
  }
}
