// Try: an editor that checks a schema while one types, and registers it.
import { plain } from "../names.js";
import { html, useEffect, useMemo, useRef, useState } from "../vendor.js";
import { ApiError } from "../api.js";
import { Dialog } from "../components/dialog.js";
import { CopyAs } from "../copy-as/copy-as.js";
import { Name } from "../components/name.js";
import { Failure, Notice } from "../components/notice.js";
import { formatOf, formats } from "../formats.js";
import { useChanges } from "../live/feed.js";
import { useResource } from "../live/resources.js";
import { navigate, to } from "../router.js";
import { united } from "../schema/changes.js";
import { Changes, Verdicts } from "../schema/findings.js";
import { Loaded, useLoaded } from "../schema/loading.js";
import { bodyOf, inLines, versionOf } from "../schema/reading.js";
import { TARGET, latestOf } from "../schema/resources.js";
import { qualified } from "../schema/scopes.js";
import { usePermitted } from "../session/permitted.js";
import { useSession } from "../session/session.js";
import { check, tableVerdicts, verdicts } from "./checks.js";
import { marksOf, placeOf } from "./diagnostics.js";
import { Drafts } from "./drafts.js";
import { complete, ReferenceFields } from "./references.js";
import { reasonOf } from "./reason.js";
import { Register } from "./register.js";
import { unpacked } from "./review.js";
import { ReviewBanner, ReviewLink } from "./review-link.js";
import { SubjectField } from "./subject-field.js";
import { TextEditor } from "./text-editor.js";

const PAUSE_MS = 300; // after the last key

const SAVE_MS = 400; // after the last key

/**
 * query: subject, version (whose text to begin with), type; review: a draft that came with the link; level or table:
 * whose findings are shown.
 *
 * The page follows its address: another one opens another draft. Only what is typed into the field for the subject
 * takes the text along.
 */
export default function Try({ query }) {
  const { me } = useSession();
  const address = keyOf(query);
  const own = useRef(address); // the address that the draft on the page belongs to
  const [round, setRound] = useState(0);
  const followed = own.current === address;
  useEffect(() => {
    if (followed) return;
    own.current = address;
    setRound(round + 1);
  }, [address]);
  const drafts = useMemo(() => new Drafts(localStorage, me?.principal), [me?.principal]);
  const change = (changes) => {
    own.current = keyOf({ ...query, ...changes });
    navigate(to("/try", { ...query, ...changes }), { replace: true });
  };
  return html`
    <h1>Try a schema</h1>
    ${me && followed &&
      html`<${Place} key=${`${round} ${me.principal}`} drafts=${drafts} query=${query} onChange=${change}
        onAgain=${() => setRound(round + 1)} />`}`;
}

function keyOf({ subject = "", version = "", type = "", review = "" }) {
  return JSON.stringify([subject, version, type, review]);
}

/** The draft at an address: what was written before, or a version's text, or a small example. */
function Place({ drafts, query, onChange, onAgain }) {
  const { subject = "", version = "", type, review } = query;
  const [kept] = useState(() => (review ? null : drafts.of(subject)));
  const [awaited] = useState(kept || review ? "" : subject);
  // Read before the text, so that what is registered in between counts as newer; kept open for `Draft`.
  const target = useResource(awaited ? TARGET : null, awaited);
  const begun = useRef(null);
  begun.current ??= target.value ?? null;
  const ready = !awaited || begun.current !== null;
  const start = useLoaded(async (signal) => kept ?? (review ? reviewed(review)
    : ready && startOf(subject, version, type, begun.current, signal)), [ready]);
  const [asking, setAsking] = useState(false);
  const again = () => {
    drafts.discard(query.subject ?? "");
    onAgain();
  };
  return html`
    ${kept &&
      html`<p role="status">
        This is your saved draft. <button class="small" onClick=${() => setAsking(true)}>Start again</button></p>`}
    ${review && start.value &&
      html`<${ReviewBanner} verdict=${start.value.verdict} onLeave=${() => navigate(to("/try", { subject }))} />`}
    ${review && start.error?.status === 0 && start.error.kind === "refused"
      ? html`<${Notice} kind="error" title="This link cannot be opened"><p>${plain(start.error.message)}</p><//>`
      : html`<${Loaded} of=${ready ? start : target} what="the schema">
      ${(draft) => html`<${Draft} start=${draft} drafts=${drafts} query=${query} onChange=${onChange}
        onAgain=${onAgain} />`}
    <//>`}
    <${Others} drafts=${drafts} subject=${query.subject ?? ""} />
    ${asking && html`
      <${Dialog} title="Discard this draft?" onClose=${() => setAsking(false)}
        footer=${html`<button class="danger" onClick=${again}>Discard it</button>`}>
        <p>What you wrote is replaced by ${version ? `the text of version ${version}` : "an example"}. This cannot be
          undone.</p>
      <//>`}`;
}

function Others({ drafts, subject }) {
  const others = drafts.subjects().filter((each) => each !== subject);
  if (!others.length) return null;
  return html`
    <p class="quiet">Other drafts: ${others.map((each, index) => html`${index > 0 && ", "}<a key=${each}
      href=${`#${to("/try", { subject: each })}`}>${each ? html`<${Name} text=${each} />` : "without a subject"}</a>`)}
    </p>`;
}

/**
 * Returns the draft to begin with: a version's, or a small example; `base`: what was the latest version then. target:
 * what TARGET holds of the subject, null without one.
 */
async function startOf(subject, version, type, target, signal) {
  const base = target && baseIn(subject, target);
  if (!subject || !version) {
    const { name, sample } = formats.find((each) => each.name === type) ?? formatOf("");
    return { schema: sample, schemaType: name, references: [], example: true, base };
  }
  const { latest } = target;
  const isLatest = latest?.subject === subject && String(latest.version) === version;
  const found = isLatest ? latest : await versionOf(subject, version, signal);
  const { references = [], metadata, ruleSet } = found;
  return { schema: await inLines(found, signal), schemaType: formatOf(found).name,
    references: references.map((each) => ({ ...each, version: String(each.version) })), metadata, ruleSet, base };
}

/** Returns the draft of a link. */
async function reviewed(review) {
  try {
    return await unpacked(review);
  } catch (error) {
    throw new ApiError("refused", `${error.message}.`);
  }
}

function baseIn(subject, { latest, tag, seen }) {
  return { subject, version: latest?.version ?? null, tag, seen };
}

function Draft({ start, drafts, query, onChange, onAgain }) {
  const { subject = "" } = query;
  const [schema, setSchema] = useState(start.schema);
  const [schemaType, setType] = useState(start.schemaType);
  const [references, setReferences] = useState(start.references);
  const [loaded, setLoaded] = useState(0); // counts texts that replace the editor's
  const [base, setBase] = useState(start.base);
  const example = useRef(start.example);
  const choose = (type) => {
    if (example.current) {
      setSchema(formatOf(type).sample);
      setLoaded(loaded + 1);
    }
    setType(type);
    onChange({ type });
  };
  const typed = (text) => {
    example.current = false;
    setSchema(text);
  };
  // Under another subject, the text begins with what is the latest version there now.
  const target = useResource(subject ? TARGET : null, subject);
  useEffect(() => {
    if (target.value && base?.subject !== subject) {
      setBase(baseIn(subject, target.value));
    }
  }, [subject, target.value]);
  const draft = useMemo(
    () => ({ subject, schema, schemaType, references: complete(references), metadata: start.metadata,
      ruleSet: start.ruleSet }),
    [subject, schema, schemaType, references, start],
  );
  const [begunUnder] = useState(subject);
  const taken = subject !== begunUnder && !example.current; // the text was taken along to another subject
  const [done, setDone] = useState({}); // what was registered last: it is no draft any more
  const changed = (schema !== start.schema || references !== start.references || taken)
    && !(done.subject === subject && done.schema === schema && done.references === references);
  const written = useMemo(() => (changed
    ? { schema, schemaType, references, metadata: start.metadata, ruleSet: start.ruleSet, base } : null),
  [changed, schema, schemaType, references, base]);
  const keeping = useKept(drafts, subject, written, start.stamp ?? null);
  const registered = async () => {
    keeping.discard();
    setDone({ subject, schema, references });
    target.reload();
    const known = await latestOf(subject).then((latest) => baseIn(subject, latest), () => null);
    setBase((now) => (now?.subject === subject ? known : now)); // the user may have gone on to another subject
  };
  return html`
    <form class="row" onSubmit=${(event) => event.preventDefault()}>
      <${SubjectField} value=${subject} onChange=${(value) => onChange({ subject: value, version: "" })} />
      <label>Type
        <select value=${schemaType} onChange=${(event) => choose(event.target.value)}>
          ${formats.map(({ name }) => html`<option key=${name}>${name}</option>`)}</select>
      </label>
    </form>
    <${Kept} keeping=${keeping} subject=${subject} onOpen=${onAgain} />
    <${Newer} base=${base?.subject === subject ? base : null} target=${target.value} />
    <${ReferenceFields} references=${references} onChange=${setReferences} />
    <${Checked} draft=${draft} target=${target} base=${base?.subject === subject ? base : null} loaded=${loaded}
      query=${query} onText=${typed} onRegistered=${registered}
      onLevel=${(level) => onChange({ level, table: "" })} onTable=${(table) => onChange({ table })} />`;
}

/** Saves a draft some time after each change, and when the page is left. written: the draft, null while unchanged. */
function useKept(drafts, subject, written, begun) {
  const [state, setState] = useState({}); // error: why it is not kept
  const stamps = useRef({ subject, stamp: begun });
  const save = useRef();
  const force = useRef(false);
  save.current = () => {
    if (!written) return;
    if (stamps.current.subject !== subject) stamps.current = { subject, stamp: null };
    if (stamps.current.written === written) return;
    try {
      if (force.current) drafts.discard(subject);
      force.current = false;
      stamps.current = { subject, written, stamp: drafts.save(subject, written, stamps.current.stamp) };
      setState({});
    } catch (error) {
      setState({ error });
    }
  };
  useEffect(() => {
    // The first change at once: if it cannot be kept, that is said before the page is left.
    if (stamps.current.subject !== subject || stamps.current.written === undefined) save.current();
    const timer = setTimeout(() => save.current(), SAVE_MS);
    return () => clearTimeout(timer);
  }, [written, subject]);
  useEffect(() => {
    const leaving = (event) => {
      save.current();
      if (written && stamps.current.written !== written) event.preventDefault(); // the browser asks
    };
    addEventListener("beforeunload", leaving);
    return () => removeEventListener("beforeunload", leaving);
  }, [written, subject]);
  useEffect(() => {
    const changed = () => save.current(); // another tab may have registered or discarded what was in the way
    addEventListener("storage", changed);
    return () => removeEventListener("storage", changed);
  }, []);
  useEffect(() => () => save.current(), []);
  return {
    ...state,
    replace: () => { force.current = true; save.current(); },
    // What another tab has saved for this subject stays.
    discard: () => {
      drafts.discard(subject, stamps.current.subject === subject ? stamps.current.stamp : null);
      stamps.current = { subject, written, stamp: null };
      setState({});
    },
  };
}

/** Says if a draft is not kept, and what to do. */
function Kept({ keeping: { error, replace }, subject, onOpen }) {
  if (!error) return null;
  if (!error.taken) {
    return html`<${Notice} kind="warning" title="This draft is lost when you leave this page">
      <p>The browser cannot keep it: ${plain(error.message)}. Register it, or copy its text.</p><//>`;
  }
  return html`
    <${Notice} kind="warning" title="There is another draft for this subject">
      <p>${subject ? html`<${Name} text=${subject} />` : "No subject"} has a draft that was saved elsewhere, such as in
        another tab. Until you choose one, what you write here is not saved.</p>
      <button onClick=${onOpen}>Open the other one</button>${" "}
      <button class="danger" onClick=${replace}>Replace it with this one</button>
    <//>`;
}

/** Says that the subject has got a newer version than the one that the draft began with. */
function Newer({ base, target }) {
  const latest = target?.latest;
  if (!latest || !base || base.tag === target.tag) return null;
  const query = { view: "compare", with: base.version === null ? "" : String(base.version) };
  return html`
    <${Notice} kind="warning" title=${`Version ${latest.version} was registered after this draft was begun`}>
      <p><a href=${`#${to(to`/subjects/${latest.subject}/versions/${latest.version}`, query)}`}>See what it
        changed</a>. Registering this draft could undo that, so you will be asked.</p>
    <//>`;
}

function Checked({ draft, target, base, loaded, query, onText, onRegistered, onLevel, onTable }) {
  const { subject, schema, schemaType } = draft;
  const refusal = usePermitted(subject);
  const { result, error, busy, again } = useChecks(draft, subject ? target.value : null);
  const control = useRef(null);
  const level = query.level || target.value?.level || "BACKWARD";
  const { table } = query;
  const chosen = table ? result.tables?.[table] : result.levels?.[level];
  // New with each result: that is when the editor marks the text again.
  const changes = useMemo(() => united(chosen?.changes ?? []), [result, chosen]);
  const inForce = result.levels?.[target.value?.level];
  const failure = error ?? (busy ? undefined : result.error);
  const note = failure ? "not known" : undefined;
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
        <${Register} key=${subject} draft=${draft} target=${target.value} base=${base} reason=${refusal("write")}
          ready=${!busy && result.lint?.valid} compatible=${inForce?.compatible} onDone=${onRegistered} />
        <p class="row">
          <${ReviewLink} draft=${draft} base=${base}
            verdict=${busy || target.error ? "" : statusOf({ busy, result, subject, target: target.value, inForce })} />
          ${subject && html`<${CopyAs} what=${{ kind: "draft", subject, body: bodyOf(draft) }} />`}
        </p>
      </div>
      <div class="results">
        <p role="status" class=${busy ? "quiet" : ""}>
          ${!target.error && statusOf({ busy, result, subject, target: target.value, inForce })}</p>
        ${target.error && html`<${Failure} error=${target.error} onRetry=${target.reload} />`}
        ${failure && html`<${Failure} error=${failure} onRetry=${again} />`}
        <${Lint} lint=${result.lint} />
        ${result.lint?.valid && target.value?.versions > 0 && html`
          <${Verdicts} caption="Verdict at each level" levels=${verdicts(result.levels, target.value.level, note)}
            inForce=${target.value.level}
            chosen=${table ? "" : level} onChoose=${onLevel} />`}
        ${result.lint?.valid && target.value && html`
          <${Verdicts} caption="Verdict of each table" head="Table" levels=${tableVerdicts(result.tables, note)}
            chosen=${table} onChoose=${onTable} />
          ${(table || target.value.versions > 0) && html`
            <h2>${table ? `In ${table}` : `At ${level}`}</h2>
            ${!table && result.levels?.[level]?.compared && html`<p>${result.levels[level].compared}</p>`}
            <${Changes} changes=${changes} none=${chosen ? "Compatible." : "…"} onGo=${goTo} />`}`}
      </div>
    </div>`;
}

/**
 * Checks the draft some time after the last change, also of what it refers to, and forgets the answers to earlier ones.
 */
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
  const again = () => setAttempt((count) => count + 1);
  const used = new Set(draft.references.map(({ subject }) => qualified(subject, draft.subject)));
  useChanges((events) => {
    if (used.size > 0 && (events === null || events.some(({ subject }) => used.has(subject)))) again();
  });
  return { ...state, again };
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
          ${severity}</strong> ${rule} at <${Name} plain text=${path} />: ${plain(message)}.${" "}
          <em>${fix && plain(fix)}</em></li>`)}</ul>
    </section>`;
}

function statusOf({ busy, result, subject, target, inForce }) {
  if (busy) return "Checking…";
  if (!result.lint) return "";
  if (!result.lint.valid) return "Not valid.";
  if (!subject) return "Valid. Enter a subject to check compatibility.";
  if (!target?.versions) return "Valid. The subject has no versions to be compatible with.";
  if (!inForce) return "Valid. Its compatibility is not known.";
  return inForce.compatible
    ? `Valid and compatible at ${target.level}, the effective level.`
    : `Valid, but incompatible at ${target.level}, the effective level.`;
}
