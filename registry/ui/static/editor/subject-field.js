// The field for a subject, with suggestions by prefix.
import { html, useEffect, useId, useRef, useState } from "../vendor.js";
import { get } from "../api.js";
import { useTyped } from "../components/typed.js";

const PAUSE_MS = 250;
const SUGGESTED = 20;

/**
 * value: the subject in force; onChange(subject) some time after the last key, or as soon as the field is left: a
 * button that is pressed then is about what was typed. none: what an empty field means.
 */
export function SubjectField({ value, onChange, label = "Subject", none = "none: validate only" }) {
  const [names, setNames] = useState([]);
  const id = useId();
  const suggesting = useRef();
  const [text, type] = useTyped(value, (subject) => {
    onChange(subject);
    suggesting.current?.abort();
    suggesting.current = new AbortController();
    const query = { subjectPrefix: subject, limit: SUGGESTED };
    get("/subjects", { query, signal: suggesting.current.signal }).then(setNames, () => {}); // only suggestions
  }, PAUSE_MS);
  useEffect(() => () => suggesting.current?.abort(), []);
  return html`
    <label class="subject">${label}
      <input list=${id} value=${text} placeholder=${none} autocomplete="off" spellcheck="false"
        onInput=${(event) => type(event.target.value)} onChange=${(event) => type(event.target.value, 0)} />
    </label>
    <datalist id=${id}>${names.map((name) => html`<option key=${name} value=${name} />`)}</datalist>`;
}
