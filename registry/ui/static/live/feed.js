// One subscription to the change feed for all views of this page, by GET /changes as a stream.
//
// EventSource cannot send credentials, so the stream is read by fetch. It is closed while the page is hidden, because
// browsers allow few connections to one server, and continues after the last offset when it is shown again.
import { useEffect, useRef, useState } from "../vendor.js";
import { isWriting, readFrom, request, seenOffset } from "../api.js";
import { nextSignIn, started } from "../session/session.js";
import { parser } from "./event-stream.js";

const SILENT_MS = 40_000; // the server says something every 15 s
const PAUSES_MS = [500, 1000, 2000, 5000, 10_000];
const POLL_MS = 10_000; // without a feed
const GATHER_MS = 200;
const GATHERED_MAX = 5000;

let state = { connection: "connecting", position: null };
let missed = false; // events that no connection brings any more
const watchers = new Set(); // of the state
const listeners = new Set(); // of events
let running = null;
let wakeUp = () => {};

/** Follow the feed from now on. */
export function follow() {
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) running?.abort();
    else wakeUp();
  });
  keepFollowing();
}

/**
 * Call listener with each batch of events, in the order of the log. null instead of an array: anything may have
 * changed, because events were missed or there is no feed. Returns a function that ends this.
 */
export function onChanges(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** While a component is shown, call handle(events) with the events of a moment at once; null as for onChanges. */
export function useChanges(handle) {
  const current = useRef();
  current.current = handle;
  useEffect(() => {
    let gathered = [];
    let timer = null;
    const stop = onChanges((events) => {
      const tooMany = events === null || gathered === null || gathered.length + events.length > GATHERED_MAX;
      gathered = tooMany ? null : [...gathered, ...events];
      timer ??= setTimeout(notify, GATHER_MS);
    });
    const notify = () => {
      if (isWriting()) {
        timer = setTimeout(notify, GATHER_MS);
        return;
      }
      const handled = gathered;
      [gathered, timer] = [[], null];
      current.current(handled);
    };
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, []);
}

/** Call reload soon after events that concern a view; concerns(event) says which do. */
export function useReload(concerns, reload) {
  useChanges((events) => {
    if (events === null || events.some(concerns)) reload();
  });
}

/** The state of the subscription: "live", "polling", "connecting" or "off". Events alone do not change it. */
export function useConnection() {
  const [found, setFound] = useState(state.connection);
  useEffect(() => {
    setFound(state.connection);
    watchers.add(setFound);
    return () => watchers.delete(setFound);
  }, []);
  return found;
}

function change(changed) {
  state = { ...state, ...changed };
  for (const each of watchers) each(state.connection);
}

function publish(events) {
  for (const each of [...listeners]) each(events);
}

async function keepFollowing() {
  for (let failures = 0; ;) {
    if (document.hidden) await new Promise((resolve) => { wakeUp = () => resolve(null); });
    try {
      await stream(() => { failures = 0; });
    } catch (error) {
      if (error.status === 404) {
        change({ connection: "polling" });
        publish(null);
        await pause(POLL_MS);
        continue;
      }
      if (error.status === 401) { // the user does not want to sign in
        change({ connection: "off" });
        await nextSignIn();
        continue;
      }
      if (error.status === 410 || error.status === 400) { // the log no longer has that position, or is another one
        missed = true;
        change({ position: null });
        readFrom(null);
      }
    }
    if (document.hidden) continue;
    change({ connection: "connecting" });
    await pause(PAUSES_MS[Math.min(failures, PAUSES_MS.length - 1)] * (0.75 + Math.random() / 2));
    failures += 1;
  }
}

async function stream(connected) {
  running = new AbortController();
  const { signal } = running;
  let watchdog = null;
  const alive = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(() => running.abort(), SILENT_MS);
  };
  alive();
  try {
    await started();
    // Before the first connection, views may have been loaded; none is older than the first answer.
    const after = state.position ?? (seenOffset() === null ? null : seenOffset() - 1);
    const answer =
      await request("GET", "/changes", { query: { after }, signal, headers: { accept: "text/event-stream" } });
    if (missed || after === null) publish(null);
    missed = false;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    const parse = parser();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      alive();
      const { events, position } = parse(value);
      if (state.connection !== "live") {
        connected();
        change({ connection: "live" });
      }
      if (position !== null) {
        readFrom(position + 1);
        change({ position });
      }
      if (events.length) publish(events);
    }
  } finally {
    clearTimeout(watchdog);
    running.abort();
  }
}

function pause(ms) {
  return new Promise((resolve) => { setTimeout(resolve, ms); });
}
