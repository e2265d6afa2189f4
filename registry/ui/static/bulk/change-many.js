// Deletes or restores many subjects by a plan.
import { html, useEffect, useRef, useState } from "../vendor.js";
import { Failure, Notice } from "../components/notice.js";
import { count } from "../cluster/units.js";
import { Plan, Planning } from "./plan.js";
import { SUBJECTS_MAX, planFor } from "./planning.js";
import { PERMANENT, RESTORE, SOFT } from "./steps.js";

const ACTIONS = {
  [SOFT]: "soft-delete",
  [PERMANENT]: "delete permanently what is soft-deleted",
  [RESTORE]: "restore what is soft-deleted",
};

/** query: prefix, what; onChange(changes of the query). */
export function ChangeMany({ query, onChange }) {
  const { prefix = "", what = SOFT } = query;
  const [state, setState] = useState({ round: 0 });
  const running = useRef(null);
  useEffect(() => () => running.current?.abort(), []);
  const begin = async (event) => {
    event.preventDefault();
    running.current?.abort();
    const stopped = new AbortController();
    running.current = stopped;
    const round = state.round + 1;
    const show = (next) => stopped.signal.aborted || setState({ round, ...next });
    show({ progress: "Looking for subjects" });
    try {
      show(await planFor({ prefix, what },
        { signal: stopped.signal, report: (progress) => show({ progress }) }));
    } catch (error) {
      show({ error });
    }
  };
  const cancel = () => {
    running.current.abort();
    setState({ round: state.round });
  };
  const change = (name) => (event) => {
    running.current?.abort();
    setState({ round: state.round });
    onChange({ [name]: event.currentTarget.value });
  };
  const { progress, steps, cut, error, round } = state;
  return html`
    <form class="actions" onSubmit=${begin}>
      <label>Subjects with the prefix <input type="search" required value=${prefix} placeholder="orders- or :.ctx:"
        spellcheck=${false} onInput=${change("prefix")} /></label>
      <label>Action <select value=${what} onChange=${change("what")}>
        ${Object.entries(ACTIONS).map(([each, label]) => html`<option key=${each} value=${each}>${label}</option>`)}
      </select></label>
      <button class="primary" disabled=${progress !== undefined}>Make a plan</button>
    </form>
    ${progress !== undefined && html`<${Planning} text=${progress} onCancel=${cancel} />`}
    ${error && html`<${Failure} error=${error} />`}
    ${cut && html`<p class="quiet">The plan has the first ${count(SUBJECTS_MAX)} subjects; carry it out and make the
      next one, or narrow the prefix.</p>`}
    ${steps?.length === 0 && html`<${Notice} kind="empty" title="No such subjects" />`}
    ${steps?.length > 0 && html`<${Plan} key=${round} steps=${steps} />`}`;
}
