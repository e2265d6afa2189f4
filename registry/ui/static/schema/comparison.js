// What a version is compared with: another one of its subject, one of another subject, or a text that is pasted. The
// address holds the choice, so a link shows the same comparison.
import { html, useId, useRef, useState } from "../vendor.js";
import { useLast } from "../components/last.js";
import { Name } from "../components/name.js";
import { Failure, Notice } from "../components/notice.js";
import { useFollowed } from "../components/typed.js";
import { SubjectField } from "../editor/subject-field.js";
import { packed, unpacked } from "../editor/review.js";
import { formatOf, formats } from "../formats.js";
import { useReload } from "../live/feed.js";
import { plain } from "../names.js";
import { Compare, Pair } from "./compare.js";
import { Loaded, useLoaded } from "./loading.js";
import { comparedTexts, comparedVersions } from "./reading.js";

const KINDS = { version: "Another version", subject: "Another subject", text: "A pasted text" };
const NO_SUBJECT = 40401;

/**
 * version: the entity of the API; versions: all numbers of its subject; query: of the page. with: the other version;
 * of: the subject of that, if it is another one; text: a text, packed as for a link; swap, whole: "1" to change sides,
 * and to show unchanged lines.
 */
export function Comparison({ version, versions, query, onChange }) {
  const kindOf = ({ text, of }) => (text ? "text" : of ? "subject" : "version");
  const [kind, setKind, report] = useFollowed(kindOf(query));
  const name = useId();
  const change = (changes) => {
    report(kindOf(changes)); // of a field that is emptied, the kind stays
    onChange(changes);
  };
  const choose = (chosen) => {
    setKind(chosen);
    if (chosen === "version") change({ with: "", of: "", text: "", swap: "" });
  };
  const shown = {
    swap: Boolean(query.swap), whole: Boolean(query.whole),
    onSwap: () => onChange({ swap: query.swap ? "" : "1" }),
    onWhole: (whole) => onChange({ whole: whole ? "1" : "" }),
  };
  return html`
    <fieldset class="choice">
      <legend class="unseen">What to compare with</legend>
      ${Object.entries(KINDS).map(([id, label]) => html`
        <label key=${id}><input type="radio" name=${name} value=${id} checked=${id === kind}
          onChange=${() => choose(id)} /> ${label}</label>`)}
    </fieldset>
    ${kind === "version" && html`
      <${Compare} version=${version} versions=${versions} base=${Number(query.with) || 0} whole=${shown.whole}
        onBase=${(other) => onChange({ with: String(other) })} onWhole=${shown.onWhole} />`}
    ${kind === "subject" && html`
      <${OtherSubject} version=${version} subject=${query.of ?? ""} number=${query.with ?? ""} shown=${shown}
        onChange=${(of, other) => change({ of, with: other, text: "" })} />`}
    ${kind === "text" && html`
      <${Pasted} version=${version} text=${query.text ?? ""} shown=${shown}
        onChange=${(text) => change({ text, of: "", with: "" })} />`}`;
}

function OtherSubject({ version, subject, number, shown, onChange }) {
  return html`
    <div class="row">
      <${SubjectField} label="Other subject" none="such as :.context:name" value=${subject}
        onChange=${(name) => onChange(name, "")} />
    </div>
    ${subject && html`
      <${OtherVersion} key=${subject} subject=${subject} number=${number} version=${version} shown=${shown}
        onNumber=${(other) => onChange(subject, other)} />`}`;
}

function OtherVersion({ subject, number, version, shown, onNumber }) {
  const other = { againstSubject: subject, against: number || undefined, reverse: shown.swap || undefined };
  const compared = useLoaded((signal) => comparedVersions(version.subject, version.version, other, signal),
    [version.subject, version.version, number, shown.swap]);
  const last = useRef(null); // the choice stays while another version is loaded
  last.current = compared.value ?? last.current;
  useReload((event) => [subject, last.current?.old.subject, last.current?.new.subject].includes(event.subject ?? null),
    compared.reload);
  if (compared.error?.code === NO_SUBJECT) {
    return html`<p role="status">There is no subject <${Name} text=${subject} />.</p>`;
  }
  return html`
    ${last.current && html`<${Choice} found=${last.current} version=${version} number=${number}
      onNumber=${onNumber} />`}
    <${Loaded} of=${compared} what="the comparison">
      ${(found) => html`
        <${Sides} shown=${shown} found=${found} onRetry=${compared.reload} pairs=${[found.old, found.new]
          .map((each) => ({ schema: each, name: `${plain(each.subject)} version ${each.version}`,
            shown: html`<${Name} text=${each.subject} /> version ${each.version}` }))} />`}
    <//>`;
}

function Choice({ found: { old, new: fresh, versions }, version, number, onNumber }) {
  const isOther = (each) => each.subject !== version.subject || each.version !== version.version;
  const chosen = Number(number) || (isOther(old) ? old : fresh).version;
  return html`
    <p><label>Version <select value=${chosen} onChange=${(event) => onNumber(event.target.value)}>
      ${offered(versions, chosen).map((each) => html`<option key=${each.number} value=${each.number}>
        version ${each.number}${each.deleted ? " (deleted)" : ""}</option>`)}
    </select></label></p>`;
}

/** Returns the newest versions, and the chosen one. */
function offered(newest, chosen) {
  return newest.some(({ number }) => number === chosen) ? newest : [...newest, { number: chosen, deleted: false }];
}

function Pasted({ version, text, shown, onChange }) {
  const found = useLoaded(async () => (text ? unpacked(text) : null), [text]);
  const last = useRef(undefined); // the form stays while another text is unpacked
  if (found.value !== undefined) last.current = found.value;
  return html`
    ${found.error
      ? html`<${Notice} kind="error" title="This link cannot be opened"><p>${plain(found.error.message)}</p><//>`
      : html`<${Loaded} of=${{ value: last.current }} what="the text">
        ${(given) => html`<${PastedText} version=${version} given=${given} shown=${shown} onChange=${onChange} />`}
      <//>`}`;
}

/** given: the text of the address; null if there is none. One that does not fit there is compared all the same. */
function PastedText({ version, given, shown, onChange }) {
  const [large, setLarge] = useState(null);
  const [error, setError] = useState(null);
  const failed = (draft, failure) => {
    setLarge(draft);
    setError(failure);
  };
  const [form, setForm, report] =
    useFollowed(given && { schema: given.schema, schemaType: given.schemaType }, () => failed(null, null));
  const { schema, schemaType } = form ?? { schema: "", schemaType: formatOf(version).name };
  const compared = large ?? given;
  const begin = useLast();
  const latest = useRef();
  latest.current = onChange;
  const submit = async (event) => {
    event.preventDefault();
    const draft = { schema, schemaType, references: [], base: null };
    setError(null);
    const isLast = begin();
    try {
      const text = await packed(draft);
      if (!isLast()) return;
      setLarge(null);
      report({ schema, schemaType });
      latest.current(text);
    } catch (failure) {
      if (isLast()) failed(schema.length > 0 ? draft : large, failure);
    }
  };
  return html`
    <form onSubmit=${submit}>
      <p><label>Schema to compare with<textarea class="full" rows="8" spellcheck="false" value=${schema}
        onInput=${(event) => setForm({ schema: event.currentTarget.value, schemaType })}></textarea></label></p>
      <p class="row">
        <label>Type <select value=${schemaType}
          onChange=${(event) => setForm({ schema, schemaType: event.currentTarget.value })}>
          ${formats.map(({ name, title }) => html`<option key=${name} value=${name}>${title}</option>`)}
        </select></label>
        <button class="primary" disabled=${!schema.trim()}>Compare</button>
      </p>
    </form>
    ${error && (large
      ? html`<p class="quiet" role="status">The text is too large for the address, so a link does not hold it.</p>`
      : html`<${Failure} error=${error} />`)}
    ${compared && html`
      <${WithText} key=${compared.schema} version=${version} shown=${shown}
        text=${{ ...compared, subject: version.subject, references: version.references ?? [] }} />`}`;
}

function WithText({ version, text, shown }) {
  const given = [{ schema: version, name: `version ${version.version}` }, { schema: text, name: "the pasted text" }];
  const pairs = shown.swap ? [...given].reverse() : given;
  const compared = useLoaded((signal) => comparedTexts(pairs[0].schema, pairs[1].schema, signal),
    [version.subject, version.version, text.schema, shown.swap]);
  return html`
    <${Loaded} of=${compared} what="the comparison">
      ${(found) => html`<${Sides} shown=${shown} found=${found} onRetry=${compared.reload} pairs=${pairs} />`}
    <//>`;
}

/** pairs: the old side and the new one, `{ schema, name, shown }`; found: how they compare; shown: see `Comparison`. */
function Sides({ pairs: [old, fresh], found, onRetry, shown: { swap, whole, onSwap, onWhole } }) {
  return html`
    <p><button type="button" onClick=${onSwap}>Swap sides</button></p>
    <${Pair} key=${String(swap)} old=${old.schema} fresh=${fresh.schema} found=${found} onRetry=${onRetry}
      names=${[old.name, fresh.name]} shown=${[old.shown ?? old.name, fresh.shown ?? fresh.name]} whole=${whole}
      onWhole=${onWhole} />`;
}
