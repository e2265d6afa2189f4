// Chooses the past moment to show a subject at, by time or by offset.
import { html, useState } from "../vendor.js";
import { useLast } from "../components/last.js";
import { navigate, to } from "../router.js";
import { offsetAt } from "./moment.js";
import { Refused } from "./refused.js";

const SECOND_MS = 999; // what is typed names a second, and all that happened in it counts

/** query: of the page, kept when another moment is chosen. */
export function LookBack({ subject, query = {} }) {
  const [time, setTime] = useState("");
  const [offset, setOffset] = useState("");
  const [state, setState] = useState({});
  const begin = useLast();
  const go = (at) => {
    setState({});
    navigate(to(to`/subjects/${subject}`, { ...query, at }));
  };
  const submit = async (event) => {
    event.preventDefault();
    if (offset) return go(offset);
    setState({ busy: true });
    const isLast = begin();
    try {
      const found = await offsetAt(subject, new Date(time).getTime() + SECOND_MS);
      if (isLast()) go(found);
    } catch (error) {
      setState({ error });
    }
  };
  return html`
    <form class="row look-back" onSubmit=${submit}>
      <label>Look back to <input type="datetime-local" step="1" value=${time}
        onInput=${(event) => setTime(event.currentTarget.value)} /></label>
      <label>or to offset <input class="number" inputmode="numeric" pattern="[0-9]*" value=${offset}
        onInput=${(event) => setOffset(event.currentTarget.value)} /></label>
      <button disabled=${state.busy || !(time || offset)}>Look back</button>
    </form>
    ${state.error && html`<${Refused} error=${state.error} subject=${subject} query=${query} />`}`;
}
