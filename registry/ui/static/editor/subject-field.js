// The field for a subject, with suggestions by prefix.
import { html, useEffect, useId, useRef, useState } from "../vendor.js";
import { get } from "../api.js";

const PAUSE_MS = 250;
const SUGGESTED = 20;

/**
 * value: the subject in force; onChange(subject) some time after the last key, or at once for a choice; none: what an
 * empty field means.
 */
export function SubjectField({ value, onChange, label = "Subject", none = "none: validate only" }) {
  const [text, setText] = useState(value);
  const [names, setNames] = useState([]);
  const id = useId();
  const change = useRef();
  change.current = onChange;
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return undefined;
    const controller = new AbortController();
    const timer = setTimeout(() => {
      change.current(text);
      const query = { subjectPrefix: text, limit: SUGGESTED };
      get("/subjects", { query, signal: controller.signal }).then(setNames, () => {}); // only suggestions
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [text]);
  return html`
    <label class="subject">${label}
      <input list=${id} value=${text} placeholder=${none} autocomplete="off" spellcheck="false"
        onInput=${(event) => setText(event.target.value)} />
    </label>
    <datalist id=${id}>${names.map((name) => html`<option key=${name} value=${name} />`)}</datalist>`;
}
