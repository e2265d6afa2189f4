// What a comparison found: the verdict at each level, and every change with what would pass.
import { plain } from "../names.js";
import { html, useState } from "../vendor.js";
import { Badge } from "../components/badge.js";
import { Name } from "../components/name.js";
import { DIRECTIONS, worded } from "./changes.js";

const SHOWN = 100;
const TONES = { added: "good", removed: "warn", changed: "accent" };

/**
 * levels: [{ level, compatible }], compatible undefined while unknown; inForce: a level; onChoose(level), if given.
 * head: what the first column lists.
 */
export function Verdicts({ caption, head = "Level", levels, inForce, chosen, onChoose }) {
  return html`
    <table class="verdicts">
      <caption class="unseen">${caption}</caption>
      <thead><tr><th scope="col">${head}</th><th scope="col">Verdict</th></tr></thead>
      <tbody>
        ${levels.map(({ level, compatible, note }) => html`
          <tr key=${level} class=${level === chosen ? "current" : null}>
            <th scope="row">
              ${onChoose
                ? html`<button class="plain small" aria-pressed=${level === chosen} onClick=${() => onChoose(level)}>
                  ${level}</button>`
                : level}
              ${level === inForce && html` <${Badge} tone="accent">effective<//>`}
            </th>
            <td><${Verdict} compatible=${compatible} note=${note} /></td>
          </tr>`)}
      </tbody>
    </table>`;
}

function Verdict({ compatible, note }) {
  if (compatible === undefined) return html`<span class="quiet">${note ?? "…"}</span>`;
  return compatible ? html`<${Badge} tone="good">✓ compatible<//>` : html`<${Badge} tone="bad">✗ incompatible<//>`;
}

/**
 * changes: as `united` returns them; none: what to say if there is none. onGo(change), if given, leads to its place.
 */
export function Changes({ changes, none, onGo }) {
  const [most, setMost] = useState(SHOWN);
  if (!changes.length) return html`<p>${none}</p>`;
  return html`
    <ol class="changes">
      ${changes.slice(0, most).map((each, index) => html`<${Change} key=${index} change=${each} onGo=${onGo} />`)}
    </ol>
    ${changes.length > most && html`
      <button onClick=${() => setMost(most + SHOWN)}>Show more: ${changes.length - most} left</button>`}`;
}

function Change({ change, onGo }) {
  const { kind, path, compatible, old, new: fresh, version, findings } = change;
  return html`
    <li class=${compatible ? "change" : "change harmful"}>
      <p class="change-head">
        <${Badge} tone=${TONES[kind]}>${kind}<//>
        <${Name} plain text=${path || "the whole schema"} />
        ${version !== null && html`<span class="quiet">compared with version ${version}</span>`}
        ${onGo && html`<button class="plain small" onClick=${() => onGo(change)}>Go there</button>`}
      </p>
      ${old !== null && html`<p class="part"><span class="quiet">old</span> <code>${plain(old)}</code></p>`}
      ${fresh !== null && html`<p class="part"><span class="quiet">new</span> <code>${plain(fresh)}</code></p>`}
      <ul>${findings.map((each, index) => html`<${Finding} key=${index} finding=${each} />`)}</ul>
    </li>`;
}

function Finding({ finding: { type, direction, compatible, fix, reason } }) {
  return html`
    <li>
      <span class=${compatible ? "good" : "bad"}>${compatible ? "✓" : "✗"}</span>${" "}
      ${[DIRECTIONS[direction], !compatible && worded(type)].filter(Boolean).join(": ")}
      ${reason && html`<p class="reason">${plain(reason)}</p>`}
      ${fix && html`<p class="fix"><strong>Fix:</strong> ${plain(fix)}</p>`}
    </li>`;
}
