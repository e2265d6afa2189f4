// Two versions compared: what changed and what that means at each level, and both texts.
import { html } from "../vendor.js";
import { Failure, Notice } from "../components/notice.js";
import { formatOf } from "../formats.js";
import { Changes, Verdicts } from "./findings.js";
import { LEVELS, united } from "./changes.js";
import { FieldDifferences } from "./field-differences.js";
import { Loaded, useLoaded } from "./loading.js";
import { Merge } from "./merge.js";
import { comparedVersions, inLines } from "./reading.js";

const OTHERS_MAX = 500; // offered for comparison, the nearest ones
const DRAWN_MAX = 2_000_000; // characters of both texts

/**
 * version: the newer one's entity; versions: all numbers; base: the other's number; onBase(number); at: the offset of
 * the past state to show, if any; whole and onWhole as for `Pair`.
 */
export function Compare({ version, versions, base, onBase, at, whole, onWhole }) {
  const others = versions.filter(({ number }) => number !== version.version);
  if (!others.length) return html`<p>This subject has no other version to compare.</p>`;
  const earlier = others.filter(({ number }) => number < version.version);
  const nearest = earlier.find(({ deleted }) => !deleted) ?? earlier[0] ?? others[0];
  const chosen = others.some(({ number }) => number === base) ? base : nearest.number;
  return html`
    <p>
      <label>Compare with <select value=${chosen} onChange=${(event) => onBase(Number(event.target.value))}>
        ${near(others, chosen)
          .map(({ number, deleted }) =>
            html`<option key=${number} value=${number}>version ${number}${deleted ? " (deleted)" : ""}</option>`)}
      </select></label>
    </p>
    <${Compared} version=${version} base=${chosen} at=${at} whole=${whole} onWhole=${onWhole} />`;
}

/** Returns the versions around one, so that the list stays short enough to choose from. */
function near(others, chosen) {
  const at = others.findIndex(({ number }) => number === chosen);
  const from = Math.max(0, Math.min(at - OTHERS_MAX / 2, others.length - OTHERS_MAX));
  return others.slice(from, from + OTHERS_MAX);
}

function Compared({ version, base, at, whole, onWhole }) {
  const { subject, version: number } = version;
  const compared = useLoaded((signal) => comparedVersions(subject, number, { against: base }, signal, at),
    [subject, number, base, at]);
  return html`
    <${Loaded} of=${compared} what=${`version ${base}`}>
      ${(found) => html`<${Pair} key=${`${found.old.version} ${found.new.version}`} old=${found.old} fresh=${found.new}
        found=${found} onRetry=${compared.reload} whole=${whole} onWhole=${onWhole} />`}
    <//>`;
}

/**
 * old, fresh: entities of the API; found: how they compare, `{ explanation, differences }`; names: what to call them in
 * a text, and shown: in a heading. whole: true to show unchanged lines, too; onWhole(whole), if that can be chosen.
 */
export function Pair({ old, fresh, found, onRetry, names = [`version ${old.version}`, `version ${fresh.version}`],
  shown = names, whole, onWhole }) {
  const labels = names.map((name) => name[0].toUpperCase() + name.slice(1));
  return html`
    <section aria-label="Changes">
      <h2>From ${shown[0]} to ${shown[1]}</h2>
      ${typeOf(old) === typeOf(fresh)
        ? html`<${Explained} ...${found.explanation} onRetry=${onRetry} />`
        : html`<${Notice} kind="warning" title="The types differ">
          <p>${labels[0]} is ${typeOf(old)}, ${names[1]} is ${typeOf(fresh)}: only the level NONE allows one to follow
          the other. Fields are compared by their names.</p><//>`}
    </section>
    <${FieldDifferences} ...${found.differences} onRetry=${onRetry} />
    <section aria-label="Texts">
      <h2>Texts</h2>
      <${Texts} old=${old} fresh=${fresh} labels=${labels} whole=${whole} onWhole=${onWhole} />
    </section>`;
}

function Explained({ value, error, onRetry }) {
  if (error) return html`<${Failure} error=${error} onRetry=${onRetry} />`;
  const { levels, changes } = value;
  return html`
    <div class="columns">
      <${Verdicts} caption="Verdict at each level" levels=${levelsOf(levels)} />
      <div>
        <${Changes} changes=${united(changes.map((each) => ({ ...each, versionCompared: null })))}
          none="No changes that affect readers or writers of data." />
      </div>
    </div>`;
}

// A pasted text has no version.
function keyOf(old, fresh) {
  return [old, fresh].flatMap(({ subject, version, schema }) => [subject, version ?? schema]);
}

// Of two schemas, a transitive level says the same as its plain one.
function levelsOf(levels) {
  return Object.keys(LEVELS).filter((level) => !level.endsWith("_TRANSITIVE") && levels[level])
    .map((level) => ({ level, compatible: levels[level].compatible }));
}

function Texts({ old, fresh, labels, whole = false, onWhole }) {
  const size = old.schema.length + fresh.schema.length;
  const laid =
    useLoaded((signal) => Promise.all([old, fresh].map((each) => inLines(each, signal))), keyOf(old, fresh));
  if (size > DRAWN_MAX) return html`<p>The texts are too large to show side by side. The list above shows what
    changed.</p>`;
  return html`
    <${Loaded} of=${laid} what="the texts">
      ${([before, after]) => (before === after
        ? html`<p>The texts are identical.</p>`
        : html`
          ${onWhole && html`<label class="check"><input type="checkbox" checked=${!whole}
            onChange=${(event) => onWhole(!event.currentTarget.checked)} /> Fold unchanged lines</label>`}
          <${Merge} old=${before} fresh=${after} types=${[typeOf(old), typeOf(fresh)]} labels=${labels}
            whole=${whole} />`)}
    <//>`;
}

function typeOf(version) {
  return formatOf(version).name;
}
