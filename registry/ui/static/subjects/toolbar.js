// Search and filters of the list of subjects.
import { html, useState } from "../vendor.js";
import { formats } from "../formats.js";
import { useResource } from "../live/resources.js";
import { CONTEXTS } from "../schema/resources.js";

const LEVELS = ["NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"];
const MODES = ["READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD"];
const KINDS = [["", "Anywhere"], ["subject", "Name"], ["field", "Field"], ["type", "Type's name"], ["tag", "Tag"],
  ["property", "Owner or other property"], ["principal", "Registered by"], ["doc", "Doc"]];
const COUNTED = ["prefix", "words", "type", "level", "mode", "context", "deleted"]; // on the switch of narrow screens

/**
 * state: the filters in force; change(part) changes some. search: a ref to the search field. onEnter, onDown: keys in
 * it. onStop: ends the loading of the list, null if it is loaded.
 */
export function Toolbar({ state, change, search, onEnter, onDown, onStop, children }) {
  const contexts = useResource(CONTEXTS).value ?? []; // without them the list still works; its own failure says why
  const [open, setOpen] = useState(false); // on narrow screens; wide ones always show the filters
  const typed = (event) => change({ q: event.currentTarget.value });
  const keys = (event) => {
    if (event.key === "Enter") onEnter();
    else if (event.key === "ArrowDown") onDown();
    else return;
    event.preventDefault();
  };
  const choice = (name, label, options) => html`
    <label class=${`filter by-${name}`}><span>${label}</span>
      <select value=${state[name] ?? ""} onChange=${(event) => change({ [name]: event.currentTarget.value })}>
        ${options.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}
      </select>
    </label>`;
  const known = state.context && !contexts.includes(state.context) ? [...contexts, state.context] : contexts;
  const chosen = COUNTED.filter((name) => state[name]).length;
  const written = (name, label, more) => html`
    <label class=${`filter by-${name}`}><span>${label}</span>
      <input value=${state[name] ?? ""} onInput=${(event) => change({ [name]: event.currentTarget.value })}
        autocomplete="off" spellcheck=${false} ...${more} />
    </label>`;
  return html`
    <div class="toolbar" role="search">
      <div class="search">
        <input type="search" ref=${search} value=${state.q ?? ""} onInput=${typed} onKeyDown=${keys}
          placeholder="Search subjects ( / )"
          aria-label="Search subjects" autocomplete="off" spellcheck=${false} />
        ${children}
      </div>
      <button class="filters-switch" aria-expanded=${open} aria-controls="filters"
        onClick=${() => setOpen(!open)}>Filters${chosen ? ` (${chosen})` : ""}</button>
      ${onStop && html`<button class="late" onClick=${onStop}>Stop loading</button>`}
      <div id="filters" class=${open ? "filters open" : "filters"}>
        ${written("prefix", "Begins with")}
        ${written("words", "Has words", { title: "Words of names, fields, types, tags, owners and docs" })}
        ${state.words && choice("kind", "Words in", KINDS)}
        ${choice("type", "Type", [["", "Any"], ...formats.map(({ name, title }) => [name, title])])}
        ${choice("level", "Compatibility", [["", "Any"], ...LEVELS.map((each) => [each, each])])}
        ${choice("mode", "Mode", [["", "Any"], ...MODES.map((each) => [each, each])])}
        ${(known.length > 1 || state.context) &&
          choice("context", "Context", [["", "All"], ...known.map((each) => [each, each === "." ? "Default" : each])])}
        ${choice("deleted", "Deleted", [["", "Hidden"], ["with", "Shown too"], ["only", "Only these"]])}
        ${choice("sort", "Order", [["", "Name"], ["-name", "Name, from Z"], ["-id", "Newest id"], ["id", "Oldest id"]])}
      </div>
    </div>`;
}
