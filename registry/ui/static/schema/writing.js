// Writes that say what they saw: if somebody else was faster, nothing is changed, and a dialog shows what happened.
import { html, useState } from "../vendor.js";
import { KINDS, described } from "../activity/events.js";
import { Dialog } from "../components/dialog.js";
import { useLast } from "../components/last.js";
import { Name } from "../components/name.js";
import { Failure, Notice } from "../components/notice.js";
import { principals } from "../components/principals.js";
import { Table } from "../components/table.js";
import { Time } from "../components/time.js";
import { Loaded, useLoaded } from "./loading.js";
import { eventsOf } from "./history-events.js";
import { labelOf } from "./scopes.js";

const CHANGED = 412;
const EVENTS_MAX = 50;

/**
 * Returns { busy, error, done, overtaken, run, close }. onDone(done, shown) is called after the write; shown: false if
 * the user has left or closed what began it, and must be taken nowhere.
 *
 * run(write, seen, look): write(tag) sends the change under a tag, see `send`. seen: { tag, seen } of what the user
 * has looked at; look() promises the same of what is there now, for those who want their change anyway. Without look,
 * a refusal of the tag is an error as any other.
 */
export function useWrite(onDone) {
  const [state, setState] = useState({});
  const begin = useLast();
  const run = async (write, seen = {}, look = undefined) => {
    setState({ busy: true });
    const isShown = begin();
    try {
      const done = await write(seen.tag);
      setState({ done: done ?? true });
      onDone?.(done, isShown());
    } catch (error) {
      if (error.status !== CHANGED || !look) setState({ error });
      else setState({ overtaken: { since: seen.seen, look, again: (now) => run(write, now, look) } });
    }
  };
  return { ...state, run, close: () => setState({}) };
}

/**
 * The dialog for a write that was overtaken; nothing while there is none. subject: or a scope, as /scopes names it;
 * writing: what `useWrite` returned; children: what is there now, if the log does not say it.
 */
export function Overtaken({ writing, ...shown }) {
  const { overtaken, close } = writing;
  return overtaken ? html`<${Question} ...${shown} overtaken=${overtaken} onClose=${close} />` : null;
}

function Question({ subject, overtaken, onClose, children }) {
  const [{ busy, failure }, setState] = useState({});
  const begin = useLast();
  const again = async () => {
    setState({ busy: true });
    const isShown = begin();
    try {
      const now = await overtaken.look();
      if (isShown()) overtaken.again(now); // who has closed this does not want it any more
    } catch (error) {
      setState({ failure: error });
    }
  };
  return html`
    <${Dialog} title="Changed in the meantime" onClose=${onClose}
      footer=${html`<button class="primary" onClick=${onClose}>Keep what is there now</button>
        <button class="danger" disabled=${busy} onClick=${again}>Change it anyway</button>`}>
      <p>Somebody else changed ${subject === "" || subject.endsWith(":")
        ? labelOf(subject) : html`<${Name} text=${subject} />`} after this page had read it. Nothing was written
        yet.</p>
      <${Since} subject=${subject} since=${overtaken.since} />
      ${children}
      ${failure && html`<${Failure} error=${failure} />`}
    <//>`;
}

function Since({ subject, since }) {
  const found = useLoaded((signal) => eventsOf(subject || ":.:", EVENTS_MAX, signal), [subject, since]);
  return html`
    <${Loaded} of=${found} what="what changed">
      ${(history) => {
        const events = (history?.events ?? []).filter(({ offset }) => offset >= since);
        if (!events.length) return html`<${Notice} kind="empty" title="The log does not show what changed" />`;
        return html`
          <${Table} caption="What changed, newest first" rows=${events} rowKey=${({ offset }) => offset} columns=${[
            { id: "time", title: "Time", cell: ({ time }) => html`<${Time} ms=${time} />` },
            { id: "kind", title: "What", cell: (event) => [KINDS[event.kind] ?? event.kind, described(event)]
              .filter(Boolean).join(": ") },
            ...principals(events),
          ]} />`;
      }}
    <//>`;
}
