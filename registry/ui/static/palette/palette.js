// One box for everything that has a name: subjects, fields, tags, ids, pages and actions. Ctrl-K opens it.
import { html, useEffect, useId, useRef, useState } from "../vendor.js";
import { get } from "../api.js";
import { Dialog } from "../components/dialog.js";
import { Icon } from "../components/icon.js";
import { Name } from "../components/name.js";
import { useKeys } from "../keys.js";
import { useMoment } from "../moment/moment.js";
import { navigate, to } from "../router.js";
import { ROUTES } from "../routes.js";
import { choicesFound, choicesOf, noteOfFailure, noted, partsFound } from "./choices.js";

const PAUSE_MS = 150;
const HITS = 20;
const OFF = 501;

/** The button and the key; the dialog while it is open. */
export function Palette() {
  const [open, setOpen] = useState(false);
  useKeys("Search", [{ keys: "Ctrl-K", does: "Search everything that has a name", run: () => false }]);
  useEffect(() => {
    const pressed = (event) => {
      const held = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
      if (!held || event.key.toLowerCase() !== "k" || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      setOpen(true);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  return html`
    <button class="plain" title="Search (Ctrl-K)" aria-label="Search" onClick=${() => setOpen(true)}>
      <${Icon} name="search" /></button>
    ${open && html`<${Dialog} title="Search" onClose=${() => setOpen(false)}>
      <${Box} onDone=${() => setOpen(false)} />
    <//>`}`;
}

function Box({ onDone }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const { hits, note } = useHits(text);
  const moment = useMoment();
  const id = useId();
  const list = useRef();
  const choices = [...choicesOf(text, ROUTES), ...choicesFound(hits)];
  const current = Math.min(at, choices.length - 1);
  const open = (choice) => {
    onDone();
    navigate(choice.kind === "subject" ? to`/subjects/${choice.subject}` : to(choice.path, choice.query));
  };
  const pressed = (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by && choices.length) setAt((current + by + choices.length) % choices.length);
    else if (event.key === "Enter" && choices[current]) open(choices[current]);
    else return;
    event.preventDefault();
  };
  useEffect(() => list.current?.children[current]?.scrollIntoView({ block: "nearest" }), [current]);
  return html`
    <div class="palette">
      <input autofocus type="search" role="combobox" aria-expanded="true" aria-controls=${id} aria-autocomplete="list"
        aria-activedescendant=${choices.length ? `${id}-${current}` : null} aria-label="What to find"
        placeholder="Subject, field, tag, who registered it, id, page" autocomplete="off" spellcheck=${false}
        value=${text} onInput=${(event) => { setText(event.currentTarget.value); setAt(0); }} onKeyDown=${pressed} />
      <ul id=${id} role="listbox" aria-label="Found" ref=${list}>
        ${choices.map((choice, index) => html`
          <li key=${index} id=${`${id}-${index}`} role="option" aria-selected=${index === current}
            class=${index === current ? "current" : null} onClick=${() => open(choice)}>
            <${Choice} choice=${choice} /></li>`)}
      </ul>
      <p class="quiet" role="status">${note}</p>
      ${moment !== null &&
        html`<p class="quiet">What is there now is searched; subjects open as of offset ${moment}.</p>`}
    </div>`;
}

function Choice({ choice }) {
  if (choice.kind !== "subject") return html`<span class="kind">${choice.kind}</span> ${choice.title}`;
  const shown = choice.matches.filter(({ kind }) => kind !== "subject").slice(0, 3);
  return html`
    <span class="kind">subject</span> <${Name} text=${choice.subject} />
    ${shown.map(({ kind, path, text, ranges }, index) => html`
      <div key=${index} class="match"><span class="kind">${kind}</span>${" "}
        ${path && kind !== "field" && kind !== "type" ? html`<${Name} plain text=${path} />: ` : ""}
        ${partsFound(text, ranges).map((part, place) => (place % 2
          ? html`<mark key=${place}><${Name} plain text=${part} /></mark>`
          : part && html`<${Name} key=${place} plain text=${part} />`))}</div>`)}`;
}

/** Returns what the registry finds for a text, and a note about it. */
function useHits(text) {
  const [state, setState] = useState({ hits: [], note: "" });
  const wanted = text.trim();
  useEffect(() => {
    if (!wanted) {
      setState({ hits: [], note: "" });
      return undefined;
    }
    const controller = new AbortController();
    const timer = setTimeout(() => {
      search(wanted, controller.signal).then(setState, (error) => {
        if (!controller.signal.aborted) setState({ hits: [], note: noteOfFailure(error) });
      });
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [wanted]);
  return state;
}

async function search(query, signal) {
  try {
    return noted(await get("/search", { query: { query, limit: HITS }, signal }));
  } catch (error) {
    if (error.status !== OFF) throw error;
    const names = await get("/subjects", { query: { subjectPrefix: query, limit: HITS }, signal });
    const hits = names.map((subject) => ({ subject, matches: [] }));
    return { hits, note: "This registry keeps no index: only beginnings of names are searched." };
  }
}
