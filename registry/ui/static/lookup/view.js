// Ids and guids looked up: the schema, and where it is used.
import { html, useEffect, useRef, useState } from "../vendor.js";
import { Failure, Notice } from "../components/notice.js";
import { useFollowed } from "../components/typed.js";
import { useKeys } from "../keys.js";
import { navigate, to } from "../router.js";
import { onSignIn } from "../session/session.js";
import { lookedUp, parsed } from "./finding.js";
import { Found } from "./found.js";

export default function Lookup({ query }) {
  const given = query.guid ?? query.id ?? "";
  const [text, setText, report] = useFollowed(given);
  const field = useRef();
  useEffect(() => field.current.focus(), []);
  useKeys("Lookup",
    [{ keys: "/", does: "Enter another id", run: () => { field.current.focus(); field.current.select(); } }]);
  const submit = (event) => {
    event.preventDefault();
    const wanted = parsed(text) ?? { id: text.trim() };
    const shown = wanted.guid ?? wanted.id;
    setText(shown);
    report(shown);
    navigate(to("/lookup", wanted));
  };
  return html`
    <div class="lookup">
      <h1>Look up an id</h1>
      <form role="search" onSubmit=${submit}>
        <input ref=${field} value=${text} onInput=${(event) => setText(event.currentTarget.value)}
          aria-label="Id or guid"
          placeholder="Id or guid" autocomplete="off" spellcheck=${false} />
        <button class="primary">Look up</button>
      </form>
      ${given ? html`<${Results} key=${`${given} ${query.context ?? ""}`} wanted=${parsed(given)} given=${given}
        context=${query.context} />` : html`
        <p class="quiet">Messages carry the id or guid of their schema. Ids are assigned per context; a guid is the same
          in all contexts.</p>`}
    </div>`;
}

function Results({ wanted, given, context }) {
  const [state, setState] = useState({});
  const [attempt, setAttempt] = useState(0);
  const [after, setAfter] = useState(undefined);
  useEffect(() => {
    const aborted = new AbortController();
    const add = ({ found, next }) =>
      setState(({ found: known = [] }) => ({ found: after === undefined ? found : [...known, ...found], next }));
    search(wanted, context, after, aborted.signal)
      .then(add, (error) => error.name !== "AbortError" && setState({ error }));
    return () => aborted.abort();
  }, [attempt, after]);
  const again = () => {
    setAfter(undefined); // from the first context on: what was found is replaced
    setAttempt((count) => count + 1);
  };
  useEffect(() => onSignIn(again), []);
  if (!wanted) {
    return html`<${Notice} kind="empty" title="Not an id or a guid">
      <p>An id is a number, and a guid looks like 0f253723-443d-17ff-493c-dc8c8fd78d5c.</p>
    <//>`;
  }
  if (state.error) return html`<${Failure} error=${state.error}
    onRetry=${() => { setState({}); again(); }} />`;
  if (!state.found) return html`<p class="quiet" role="status">Looking…</p>`;
  return html`
    ${!state.next && !state.found.length &&
      html`<${Notice} kind="empty" title=${`Nothing has the ${wanted.id ? "id" : "guid"} ${given}`}>
      <p>${wanted.id ? "Not in any context that you can read" : "Not in anything that you can read"}, not even
        soft-deleted.</p>
    <//>`}
    ${state.found.map((found) => html`<${Found} key=${`${found.context} ${found.id}`} found=${found} />`)}
    ${state.next && html`<p><button onClick=${() => setAfter(state.next)}>Search further contexts</button></p>`}`;
}

async function search(wanted, context, after, signal) {
  return wanted ? lookedUp(wanted, context, after, signal) : { found: [], next: null };
}
