// A plan in a table: what would happen to each row and why; then the result of each. Nothing is done before a click.
import { html, useEffect, useRef, useState } from "../vendor.js";
import { Badge } from "../components/badge.js";
import { Dialog } from "../components/dialog.js";
import { Name } from "../components/name.js";
import { Failure, Notice } from "../components/notice.js";
import { Table } from "../components/table.js";
import { count } from "../cluster/units.js";
import { plain } from "../names.js";
import { href } from "../router.js";
import { GuardedButton } from "../session/guarded.js";
import { useSomewhere } from "../session/permitted.js";
import { perform as changeVersion } from "./requests.js";
import { KEEP, PERMANENT, REGISTER, RESTORE, SOFT, carryOut, tally } from "./steps.js";

const SHOWN = 200; // rows at first, and with each click
const TONES = { [KEEP]: "plain", [SOFT]: "warn", [PERMANENT]: "bad", [RESTORE]: "good", [REGISTER]: "good" };
const RESULTS = { running: "accent", done: "good", refused: "bad", failed: "bad" };

/** steps: see steps.js, with subject, version (null: all), id, action and reason; perform(step) carries one out. */
export function Plan({ steps, perform = changeVersion }) {
  const [left, setLeft] = useState(new Set()); // the indexes of steps that the user leaves out
  const [shown, setShown] = useState(SHOWN);
  const [asking, setAsking] = useState(false);
  const run = useRun(steps, left, perform);
  const counts = tally(steps, (index) => left.has(index));
  const doing = steps.length - (counts[KEEP] ?? 0);
  const needs = steps.some(({ action }) => action === RESTORE || action === REGISTER) ? "write" : "delete";
  const refusal = useSomewhere();
  const started = run.results.size > 0;
  const leave = (index, out) => setLeft((before) => {
    const after = new Set(before);
    if (out) after.add(index);
    else after.delete(index);
    return after;
  });
  return html`
    <section aria-label="Plan">
      <p role="status">${run.busy ? html`<${Progress} done=${run.results.size} total=${doing} />`
        : started ? endOf(run, doing) : `The plan: ${worded(counts)}. Nothing has been changed.`}</p>
      ${run.error && html`<${Failure} error=${run.error} />`}
      <p class="actions">
        ${!started && html`<${GuardedButton} needs=${needs} refusal=${refusal} class="danger" disabled=${doing === 0}
          onClick=${() => setAsking(true)}>Run the plan…<//>`}
        ${run.busy && html`<button onClick=${run.cancel}>Stop after this row</button>`}
        ${started && !run.busy && run.ended !== "done" &&
          html`<button class="danger" onClick=${run.begin}>Continue</button>`}
      </p>
      <${Table} caption="Steps of the plan" rows=${steps.slice(0, shown).map((step, index) => ({ ...step, index }))}
        rowKey=${({ index }) => index} columns=${columns(left, leave, run, started)} />
      ${steps.length > shown && html`<button onClick=${() => setShown(shown + SHOWN)}>
        Show more of ${count(steps.length)}</button>`}
      ${asking && html`<${Confirm} counts=${counts} onClose=${() => setAsking(false)}
        onConfirm=${() => { setAsking(false); run.begin(); }} />`}
    </section>`;
}

function columns(left, leave, run, started) {
  return [
    { id: "chosen", title: html`<span class="unseen">Chosen</span>`, cell: ({ index, action, subject, version }) =>
      action !== KEEP && html`<input type="checkbox" checked=${!left.has(index)} disabled=${started}
        aria-label=${`Include ${plain(subject)}${version ? ` version ${version}` : ""}`}
        onChange=${(event) => leave(index, !event.currentTarget.checked)} />` },
    { id: "subject", title: "Subject",
      cell: ({ subject }) => html`<a class="wrap" href=${href`/subjects/${subject}`}><${Name} text=${subject} /></a>` },
    { id: "version", title: "Version", cell: ({ version }) => version ?? "all" },
    { id: "id", title: "Id", numeric: true, wide: true, cell: ({ id }) => id ?? "" },
    { id: "action", title: "Action", cell: ({ action }) => html`<${Badge} tone=${TONES[action]}>${action}<//>` },
    { id: "reason", title: "Reason", cell: ({ reason }) => html`<${Name} plain text=${reason} />` },
    ...(started ? [{ id: "result", title: "Result", cell: ({ index }) => result(run.results.get(index)) }] : []),
  ];
}

function result(found) {
  if (!found) return "";
  return html`<${Badge} tone=${RESULTS[found.state]}>${found.state}<//>${" "}
    ${found.note && html`<${Name} plain text=${found.note} />`}`;
}

function worded(counts) {
  return [SOFT, PERMANENT, RESTORE, REGISTER, KEEP].filter((action) => counts[action])
    .map((action) => `${action} ${count(counts[action])}`).join(", ") || "nothing";
}

function endOf({ results, ended }, doing) {
  const states = [...results.values()].map(({ state }) => state);
  const of = (state) => states.filter((each) => each === state).length;
  const refused = of("refused") ? `, ${count(of("refused"))} refused` : "";
  const text = `${count(of("done"))} of ${count(doing)} done${refused}.`;
  return ended === "cancelled" ? `Stopped. ${text}` : ended === "failed" ? `Interrupted. ${text}` : text;
}

function Progress({ done, total }) {
  return html`<progress aria-label="Carrying out the plan" value=${done} max=${total}></progress>
    ${" "}${count(done)} of ${count(total)}`;
}

/** Carries the steps out until it is cancelled or the page is left. */
function useRun(steps, left, perform) {
  const [state, setState] = useState({ results: new Map(), busy: false });
  const stopped = useRef(false);
  useEffect(() => () => { stopped.current = true; }, []);
  const begin = async () => {
    stopped.current = false;
    const before = state.results;
    const results = new Map([...before].filter(([, { state: each }]) => each !== "failed"));
    const finished = new Set(results.keys());
    const show = (more) => setState({ results: new Map(results), busy: true, ...more });
    show();
    const outcome = await carryOut(steps, perform, {
      report: (index, found) => { results.set(index, found); show(); },
      cancelled: () => stopped.current,
      pause: (seconds) => new Promise((resolve) => { setTimeout(resolve, seconds * 1000); }),
      isLeftOut: (index) => left.has(index) || finished.has(index),
    });
    show({ busy: false, ...outcome });
  };
  return { ...state, begin, cancel: () => { stopped.current = true; } };
}

function Confirm({ counts, onClose, onConfirm }) {
  const [typed, setTyped] = useState("");
  const permanent = counts[PERMANENT] ?? 0;
  return html`
    <${Dialog} title="Carry out the plan?" onClose=${onClose}
      footer=${html`<button class="danger" disabled=${permanent > 0 && typed !== String(permanent)}
        onClick=${onConfirm}>Run it</button>`}>
      <ul>
        ${counts[SOFT] > 0 && html`<li>${count(counts[SOFT])} are soft-deleted and can be restored. Clients that
          request them by version get 404; by id they can still be read.</li>`}
        ${counts[RESTORE] > 0 && html`<li>${count(counts[RESTORE])} are registered again. Each keeps its id and becomes
          the next version; the registry checks its compatibility. One that refers to a version that stays deleted is
          refused; <code>registrar undelete</code> restores versions with their former numbers.</li>`}
        ${counts[REGISTER] > 0 && html`<li>${count(counts[REGISTER])} are registered; the registry checks each.</li>`}
        ${permanent > 0 && html`<li><strong>${count(permanent)} are deleted permanently. This cannot be undone: messages
          with their ids can no longer be read.</strong> The registry asks its deletion guard about each.</li>`}
        <li>What has changed since the plan was made is left as it is.</li>
      </ul>
      ${permanent > 0 && html`<p><label>To confirm, type their number, ${permanent}
        <input class="full" inputmode="numeric" autocomplete="off" value=${typed}
          onInput=${(event) => setTyped(event.currentTarget.value)} /></label></p>`}
    <//>`;
}

/** How far the search for a plan is, with a way to stop it. */
export function Planning({ text, title = "Making the plan…", onCancel }) {
  return html`<${Notice} kind="info" title=${title}><p role="status">${text}</p>
    <button onClick=${onCancel}>Stop</button><//>`;
}
