// What a version referred to at a moment of the past, directly and indirectly.
import { html } from "../vendor.js";
import { Name } from "../components/name.js";
import { Notice } from "../components/notice.js";
import { to } from "../router.js";
import { Loaded, useLoaded } from "./loading.js";
import { versionOf } from "./reading.js";

const VERSIONS_MAX = 100;
const NOT_FOUND = 404;

/** version: the entity as of then; at: the offset. */
export function PastReferences({ version, at }) {
  const found = useLoaded((signal) => referencesOf(version, at, signal), [version.subject, version.version, at]);
  return html`
    <${Loaded} of=${found} what="the references">
      ${({ rows, complete }) => html`
        <section>
          <h2>References</h2>
          ${rows.length === 0 && html`<p>None.</p>`}
          <ul>${rows.map(({ subject, version: number, names, steps, missing }) => html`
            <li key=${`${number} ${subject}`}>
              <a href=${`#${to(to`/subjects/${subject}/versions/${number}`, { at })}`}><${Name} text=${subject} />
                ${" "}version ${number}</a>
              ${missing && html` <span class="bad">did not exist</span>`}
              <span class="quiet"> ${steps === 1 ? "directly" : `in ${steps} steps`}, as </span>
              ${names.map((name, index) => html`${index > 0 ? ", " : ""}<${Name} plain text=${name} />`)}
            </li>`)}</ul>
          ${!complete && html`<p class="quiet">Only the first ${VERSIONS_MAX} are listed.</p>`}
        </section>
        <${Notice} kind="info" title=${`Referrers are not available as of offset ${at}`}>
          <p>Which schemas referred to this one is only known as of now.</p><//>`}
    <//>`;
}

/** Returns `{ rows, complete }`, the nearest first. */
async function referencesOf(version, at, signal) {
  const rows = new Map();
  let level = version.references ?? [];
  for (let steps = 1; level.length; steps += 1) {
    const next = [];
    for (const { name, subject, version: number } of level) {
      const key = `${number} ${subject}`;
      const known = rows.get(key);
      if (known) {
        if (!known.names.includes(name)) known.names.push(name);
        continue;
      }
      if (rows.size === VERSIONS_MAX) return { rows: [...rows.values()], complete: false };
      const found = await orNone(versionOf(subject, number, signal, undefined, at));
      rows.set(key, { subject, version: number, names: [name], steps, missing: found === null });
      next.push(...found?.references ?? []);
    }
    level = next;
  }
  return { rows: [...rows.values()], complete: true };
}

async function orNone(answer) {
  try {
    return await answer;
  } catch (error) {
    if (error.status === NOT_FOUND) return null;
    throw error;
  }
}
