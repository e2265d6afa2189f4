// Chooses the moment at which to look at the whole registry, by time or by offset.
import { html, useState } from "../vendor.js";
import { useLast } from "../components/last.js";
import { Failure } from "../components/notice.js";
import { offsetAt } from "../schema/moment.js";
import { lookAt, useMoment } from "./moment.js";

const SECOND_MS = 999; // what is typed names a second, and all that happened in it counts

export function ChooseMoment() {
  const now = useMoment();
  const [time, setTime] = useState("");
  const [offset, setOffset] = useState("");
  const [{ busy, error }, setState] = useState({});
  const begin = useLast();
  const submit = async (event) => {
    event.preventDefault();
    setState({ busy: true });
    const isLast = begin();
    try {
      const found = offset || await offsetAt(":.:", new Date(time).getTime() + SECOND_MS);
      if (!isLast()) return;
      lookAt(found);
      setState({});
    } catch (failure) {
      setState({ error: failure });
    }
  };
  return html`
    <form class="actions" onSubmit=${submit}>
      <label>Time <input type="datetime-local" step="1" value=${time}
        onInput=${(event) => setTime(event.currentTarget.value)} /></label>
      <label>or offset <input class="number" inputmode="numeric" pattern="[0-9]{1,16}" value=${offset}
        onInput=${(event) => setOffset(event.currentTarget.value)} /></label>
      <button disabled=${busy || !(time || offset)}>Look back</button>
    </form>
    ${now !== null && html`<p role="status">You are viewing the registry as of offset ${now}.</p>`}
    ${error && html`<${Failure} error=${error} />`}`;
}
