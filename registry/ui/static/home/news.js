// What has changed since the user was here.
import { html, useEffect, useState } from "../vendor.js";
import { get, seenOffset } from "../api.js";
import { KINDS } from "../activity/events.js";
import { ago, count, moment } from "../cluster/units.js";
import { Name } from "../components/name.js";
import { Failure } from "../components/notice.js";
import { useChanges } from "../live/feed.js";
import { href } from "../router.js";
import { useLoaded } from "../schema/loading.js";
import { storeVisit, storedVisit, summaryOf, visitAt } from "./since.js";

const PAGE = 1000; // the most events of one answer, and offsets of the log that are looked at
const FIRST_VISIT = 100; // offsets that are shown to somebody who was never here
const EVENTS_MAX = 10_000;

export function News({ principal }) {
  const [round, setRound] = useState(0);
  const loaded = useLoaded((signal) => changesSince(principal, signal), [principal, round]);
  const [later, setLater] = useState([]);
  useChanges((events) => {
    if (events === null) loaded.reload();
    else setLater((before) => [...before, ...events].slice(-EVENTS_MAX));
  });
  useEffect(() => setLater((before) => before.filter(({ offset }) => offset >= (loaded.value?.end ?? 0))),
    [loaded.value]);
  const seen = () => {
    const { end } = loaded.value;
    const offset = Math.max(end - 1, ...later.map((event) => event.offset));
    storeVisit(localStorage, principal, { since: { offset, time: Date.now() }, last: { offset, time: Date.now() } });
    setLater([]);
    setRound(round + 1);
  };
  const { value, error } = loaded;
  if (error) return html`<section class="card"><h2>What changed</h2>
    <${Failure} error=${error} onRetry=${loaded.reload} /></section>`;
  if (!value) return html`<section class="card"><h2>What changed</h2>
    <p class="quiet" role="status">Loading…</p></section>`;
  const events = [...value.events, ...later.filter(({ offset }) => offset >= value.end)];
  return html`
    <section class="card wide" aria-label="What changed">
      <h2>${value.since ? `Since you were here, ${ago(value.since.time)} ago` : "What changed last"}</h2>
      <${Summary} events=${events} cut=${value.cut} since=${value.since} />
      <p class="actions"><a href="#/activity">All activity</a>
        ${value.since && events.length > 0 && html`<button class="small" onClick=${seen}>Mark as seen</button>`}</p>
    </section>`;
}

function Summary({ events, cut, since }) {
  const { kinds, subjects, more } = summaryOf(events);
  if (!events.length) return html`<p class="quiet">Nothing${since ? " has changed." : " yet."}</p>`;
  return html`
    ${cut && html`<p class="quiet">There were more changes; these are the newest.</p>`}
    <p>${kinds.map(([kind, number]) => counted(kind, number)).join(", ")}.</p>
    <ul class="news">${subjects.map(({ subject, kinds: own, time, principals }) => html`
      <li key=${subject}>
        <a href=${href`/subjects/${subject}`}><${Name} text=${subject} /></a>${" "}
        <span class="quiet">${own.map(([kind, number]) => counted(kind, number)).join(", ")}${principals.length > 0
          && html` by ${principals.map((each, index) => html`${index > 0 && ", "}<${Name} plain text=${each} />`)}`},
          ${" "}${moment(time)}</span>
      </li>`)}</ul>
    ${more > 0 && html`<p class="quiet">and ${count(more)} more subjects.</p>`}`;
}

function counted(kind, number) {
  const word = KINDS[kind] ?? kind;
  return number === 1 ? word : `${count(number)} × ${word}`;
}

/** Returns { since, events, cut, end }: what the log holds after the visit before, within bounds. */
async function changesSince(principal, signal) {
  const seen = seenOffset() ?? 0; // the session, which this page waits for, was an answer
  const visit = visitAt(storedVisit(localStorage, principal), seen - 1, Date.now());
  const first = Math.max(-1, seen - 1 - (visit.since ? PAGE : FIRST_VISIT));
  const after = Math.max(first, visit.since?.offset ?? -1);
  const { events, end, cut } = await eventsFrom(after, seen, signal);
  storeVisit(localStorage, principal, { ...visit, last: { ...visit.last, offset: end - 1 } });
  return { since: visit.since, events, end, cut: cut || (visit.since !== null && after > visit.since.offset) };
}

/** Returns { events, end, cut }: the events after an offset, and the offset before which none is left out. */
async function eventsFrom(after, seen, signal) {
  const events = [];
  let next = after;
  try {
    while (next < seen - 1) { // once, but for records that are several events
      const page = await get("/changes", { query: { after: next, limit: PAGE }, signal });
      events.push(...page.events);
      if (page.next <= next) break;
      next = page.next;
    }
  } catch (error) {
    if (error.status !== 410) throw error; // the log no longer has that position
    return { events, end: seen, cut: true };
  }
  return { events, end: Math.max(seen, next + 1), cut: false };
}
