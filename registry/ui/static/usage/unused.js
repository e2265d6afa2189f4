// Versions that nothing holds, and the plan to delete them: soft first, permanently after some days.
import { html, useEffect, useRef, useState } from "../vendor.js";
import { pages } from "../api.js";
import { Plan, Planning } from "../bulk/plan.js";
import { Failure, Notice } from "../components/notice.js";
import { count } from "../cluster/units.js";
import { CopyButton } from "../components/copy-button.js";
import { stepsFor } from "./cleanup.js";

const PAGE = 200;
const STEPS_MAX = 2000; // of one plan
const OLDER_DAYS = 90;
const PERMANENT_DAYS = 30;
const REGISTRY = new URL("..", document.baseURI).href.replace(/\/$/, "");

/** census: the newest one; query: prefix, older, permanent (days); onChange(changes of the query). */
export function Unused({ census, query, onChange }) {
  const { prefix = "", older = String(OLDER_DAYS), permanent = "" } = query;
  const planning = usePlanning(census);
  if (!census.complete) return html`<${Notice} kind="warning" title="Nothing can be called unused">
    <p>The newest census is not complete.</p><//>`;
  const submit = (event) => {
    event.preventDefault();
    planning.begin({ prefix, older: Number(older), permanent: permanent === "" ? null : Number(permanent) });
  };
  const set = (name) => (event) => onChange({ [name]: event.currentTarget.value });
  return html`
    <p>Versions that the census did not find in any message, and that no version in use refers to. The latest version of
      a subject in use is kept.</p>
    <form class="actions" onSubmit=${submit}>
      <label>Subjects with the prefix <input type="search" value=${prefix} placeholder="all" spellcheck=${false}
        onInput=${set("prefix")} /></label>
      <label>registered at least <input class="number" type="number" min="0" max="100000" required value=${older}
        onInput=${set("older")} /> days ago</label>
      <label>permanently after <input class="number" type="number" min="0" max="100000" value=${permanent}
        placeholder="never" onInput=${set("permanent")} /> days</label>
      <button class="primary" disabled=${planning.busy}>Make a plan</button>
      ${permanent === "" && html`<button type="button" class="plain" onClick=${() =>
        onChange({ permanent: String(PERMANENT_DAYS) })}>Use ${PERMANENT_DAYS} days</button>`}
    </form>
    ${planning.busy && html`<${Planning} onCancel=${planning.cancel}
      text=${`${count(planning.examined)} subjects with unused versions, ${count(planning.steps.length)} versions`} />`}
    ${planning.error && html`<${Failure} error=${planning.error} />`}
    ${planning.cut && html`<p class="quiet">The plan has the first ${count(STEPS_MAX)} versions; carry it out and make
      the next one, or narrow the prefix.</p>`}
    ${planning.ready && planning.steps.length === 0 && html`<${Notice} kind="empty" title="Nothing to delete">
      <p>No unused version is that old.</p><//>`}
    ${planning.ready && planning.steps.length > 0 &&
      html`<${Plan} key=${planning.round} steps=${planning.steps} />`}
    <${Command} prefix=${prefix} older=${older} permanent=${permanent} />`;
}

function Command({ prefix, older, permanent }) {
  const words = ["registrar", "unused", ...(prefix ? [`'${prefix.replaceAll("'", "'\\''")}'`] : []),
    "--older-than", `${older || 0}d`, "--delete", ...(permanent === "" ? [] : ["--permanent-after", `${permanent}d`]),
    "--url", REGISTRY];
  const command = words.join(" ");
  return html`<p class="command quiet">On the command line: <code class="wrap">${command}</code>
    ${" "}<${CopyButton} text=${command} label="Copy the command" /></p>`;
}

function usePlanning(census) {
  const [state, setState] = useState({ steps: [], examined: 0, round: 0 });
  const running = useRef(null);
  useEffect(() => () => running.current?.abort(), []);
  const begin = async ({ prefix, older, permanent }) => {
    running.current?.abort();
    const stopped = new AbortController();
    running.current = stopped;
    const options = { olderThanDays: older, permanentAfterDays: permanent, now: Date.now() };
    const round = state.round + 1;
    let [steps, examined] = [[], 0];
    const show = (more) => stopped.signal.aborted || setState({ steps, examined, round, busy: true, ...more });
    show();
    try {
      const query = { subjectPrefix: prefix || ":*:", unused: true };
      for await (const page of pages("/usage/subjects", { query, limit: PAGE, signal: stopped.signal })) {
        steps = [...steps, ...page.flatMap((each) => stepsFor(each, census, options))];
        examined += page.length;
        if (steps.length >= STEPS_MAX) break;
        show();
      }
      const cut = steps.length > STEPS_MAX;
      steps = steps.slice(0, STEPS_MAX);
      show({ busy: false, ready: true, cut });
    } catch (error) {
      show({ busy: false, error });
    }
  };
  const cancel = () => {
    running.current.abort();
    setState((before) => ({ ...before, steps: [], busy: false, ready: false }));
  };
  return { ...state, begin, cancel };
}
