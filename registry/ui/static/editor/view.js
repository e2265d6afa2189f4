// Try: an editor that checks a schema while one types, and registers it.
import { html, useEffect, useMemo, useRef, useState } from "../vendor.js";
import { Failure, Notice } from "../components/notice.js";
import { formatOf, formats } from "../formats.js";
import { navigate, to } from "../router.js";
import { united } from "../schema/changes.js";
import { Changes, Verdicts } from "../schema/findings.js";
import { Loaded, useLoaded } from "../schema/loading.js";
import { inLines, versionOf } from "../schema/reading.js";
import { usePermitted } from "../session/permitted.js";
import { check, tableVerdicts, targetOf, verdicts } from "./checks.js";
import { marksOf, placeOf } from "./diagnostics.js";
import { complete, ReferenceFields } from "./references.js";
import { reasonOf } from "./reason.js";
import { Register } from "./register.js";
import { SubjectField } from "./subject-field.js";
import { TextEditor } from "./text-editor.js";

const PAUSE_MS = 300; // after the last key

// What was typed last, so that it is still there when one comes back from another page.
let kept = null;

/** query: subject, version (whose text to begin with), type; level or table: whose findings are shown. */
export default function Try({ query }) {
  const { subject = "", version = "" } = query;
  const [begun, setBegun] = useState([subject, version]); // later changes of the subject keep the draft
  const [mine, setMine] = useState(kept?.key === keyOf(subject, version) ? kept : null);
  const start =
    useLoaded((signal) => (mine ? Promise.resolve(mine) : startOf(...begun, query.type, signal)),
      [...begun, Boolean(mine)]);
  const again = () => {
    kept = null;
    setBegun([subject, version]);
    setMine(null);
  };
  return html`
    <h1>Try a schema</h1>
    ${mine &&
      html`<p role="status">
        This is what you wrote before. <button class="small" onClick=${again}>Start again</button></p>`}
    <${Loaded} of=${start} what="the schema">
      ${(draft) =>
        html`<${Draft} key=${Boolean(mine)} start=${draft} query=${query}
          onText=${(changed) => { kept = { ...changed, key: keyOf(query.subject, query.version) }; }} />`}
    <//>`;
}

function keyOf(subject = "", version = "") {
  return JSON.stringify([subject, version]);
}

/** Returns the draft to begin with: a version's, or a small example. */
async function startOf(subject, version, type, signal) {
  if (!subject || !version) {
    const { name, sample } = formats.find((each) => each.name === type) ?? formatOf("");
    return { schema: sample, schemaType: name, references: [], example: true };
  }
  const found = await versionOf(subject, version, signal);
  const { references = [], metadata, ruleSet } = found;
  return { schema: await inLines(found, signal), schemaType: formatOf(found).name,
    references: references.map((each) => ({ ...each, version: String(each.version) })), metadata, ruleSet };
}

function Draft({ start, query, onText }) {
  const { subject = "" } = query;
  const [schema, setSchema] = useState(start.schema);
  const [schemaType, setType] = useState(start.schemaType);
  const [references, setReferences] = useState(start.references);
  const [loaded, setLoaded] = useState(0); // counts texts that replace the editor's
  const example = useRef(start.example);
  const change = (changes) => navigate(to("/try", { ...query, ...changes }), { replace: true });
  const choose = (type) => {
    if (example.current) {
      setSchema(formatOf(type).sample);
      setLoaded(loaded + 1);
    }
    setType(type);
    change({ type });
  };
  const typed = (text) => {
    example.current = false;
    setSchema(text);
  };
  const draft = useMemo(
    () => ({ subject, schema, schemaType, references: complete(references), metadata: start.metadata,
      ruleSet: start.ruleSet }),
    [subject, schema, schemaType, references, start],
  );
  useEffect(() => {
    if (schema !== start.schema || references !== start.references)
      onText({ ...start, schema, schemaType, references, example: false });
  }, [draft, references]);
  return html`
    <form class="row" onSubmit=${(event) => event.preventDefault()}>
      <${SubjectField} value=${subject} onChange=${(value) => change({ subject: value, version: "" })} />
      <label>Type
        <select value=${schemaType} onChange=${(event) => choose(event.target.value)}>
          ${formats.map(({ name }) => html`<option key=${name}>${name}</option>`)}</select>
      </label>
    </form>
    <${ReferenceFields} references=${references} onChange=${setReferences} />
    <${Checked} draft=${draft} loaded=${loaded} query=${query} onText=${typed}
      onLevel=${(level) => change({ level, table: "" })} onTable=${(table) => change({ table })} />`;
}

function Checked({ draft, loaded, query, onText, onLevel, onTable }) {
  const { subject, schema, schemaType } = draft;
  const target = useLoaded((signal) => targetOf(subject, signal), [subject]);
  const refusal = usePermitted(subject);
  const { result, error, busy, again } = useChecks(draft, target.value);
  const control = useRef(null);
  const level = query.level || target.value?.level || "BACKWARD";
  const { table } = query;
  const chosen = table ? result.tables?.[table] : result.levels?.[level];
  // New with each result: that is when the editor marks the text again.
  const changes = useMemo(() => united(chosen?.changes ?? []), [result, chosen]);
  const inForce = result.levels?.[target.value?.level];
  const json = formatOf(schemaType).language === "json";
  const marks = (text, tree) => marksOf({ lint: result.lint, changes }, text, tree, json);
  const goTo = (each) => {
    const range = placeOf(each, schema, control.current?.tree(), json);
    if (range) control.current.goTo(range);
  };
  return html`
    <div class="columns try">
      <div>
        <${TextEditor} text=${schema} loaded=${loaded} type=${schemaType} label="Schema" onText=${onText} marks=${marks}
          checked=${changes} control=${control} />
        <${Register} draft=${draft} reason=${refusal("write")} ready=${!busy && result.lint?.valid}
          compatible=${inForce?.compatible}
          level=${target.value?.level} onDone=${target.reload} />
      </div>
      <div class="results">
        <p role="status" class=${busy ? "quiet" : ""}>
          ${!target.error && statusOf({ busy, result, subject, target: target.value, inForce })}</p>
        ${target.error && html`<${Failure} error=${target.error} onRetry=${target.reload} />`}
        ${error && html`<${Failure} error=${error} onRetry=${again} />`}
        <${Lint} lint=${result.lint} />
        ${result.lint?.valid && target.value?.versions > 0 && html`
          <${Verdicts} caption="Verdict at each level" levels=${verdicts(result.levels)} inForce=${target.value.level}
            chosen=${table ? "" : level} onChoose=${onLevel} />`}
        ${result.lint?.valid && target.value && html`
          <${Verdicts} caption="Verdict of each table" head="Table" levels=${tableVerdicts(result.tables)}
            chosen=${table} onChoose=${onTable} />
          ${(table || target.value.versions > 0) && html`
            <h2>${table ? `In ${table}` : `At ${level}`}</h2>
            <${Changes} changes=${changes} none=${chosen ? "Compatible." : "…"} onGo=${goTo} />`}`}
      </div>
    </div>`;
}

/** Checks the draft some time after the last change, and forgets the answers to earlier ones. */
function useChecks(draft, target) {
  const [state, setState] = useState({ result: {}, busy: true });
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    setState((before) => ({ ...before, busy: true }));
    if (draft.subject && target === undefined) return undefined;
    const controller = new AbortController();
    const { signal } = controller;
    const show = (next) => signal.aborted || setState(next);
    const timer = setTimeout(() => {
      check(draft, target, (result) => show({ result, busy: true }), signal)
        .then((result) => show({ result: { ...result }, busy: false }),
          (error) => show({ result: {}, error, busy: false }));
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [draft, target, attempt]);
  return { ...state, again: () => setAttempt(attempt + 1) };
}

function Lint({ lint }) {
  if (!lint) return null;
  if (!lint.valid) {
    return html`<${Notice} kind="error" title="Not a valid schema"><p class="wrap">${reasonOf(lint.message)}</p><//>`;
  }
  if (!lint.findings.length) return null;
  return html`
    <section>
      <h2>Lint</h2>
      <ul>${lint.findings.map(({ severity, rule, path, message, fix }, index) => html`
        <li key=${index}><strong class=${severity === "error" ? "bad" : ""}>
          ${severity}</strong> ${rule} at <span class="name">${path}</span>: ${message}. <em>${fix}</em></li>`)}</ul>
    </section>`;
}

function statusOf({ busy, result, subject, target, inForce }) {
  if (busy) return "Checking…";
  if (!result.lint) return "";
  if (!result.lint.valid) return "Not valid.";
  if (!subject) return "Valid. Enter a subject to check compatibility.";
  if (!target?.versions) return "Valid. The subject has no versions to be compatible with.";
  return inForce?.compatible
    ? `Valid and compatible at ${target.level}, the effective level.`
    : `Valid, but incompatible at ${target.level}, the effective level.`;
}
