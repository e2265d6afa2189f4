// The user of the console: the session, what GET /me says, and what is therefore permitted.
//
// A password or token is exchanged for a session at once: a cookie that no script sees and all tabs share. No
// credentials are in the browser's storage or in a URL. Only what renews a token of an issuer stays in this page's
// memory.
import { useEffect, useState } from "../vendor.js";
import { ApiError, authorizeWith, recoverWith, request } from "../api.js";
import { addressed } from "../router.js";
import * as oidc from "./oidc.js";

const AGAIN_MS = 5000;
const RENEWED_PART = 1 / 3; // of a session's time, after which it is renewed
const LOADED_MS = 5000; // after which a page that has just been opened has what it shows
const RENEW_MIN_MS = 1000;
const NO_SESSIONS = new Set([400, 404, 405]); // what a registry answers that gives this user none

let state = { me: null, asking: false, error: "", ended: false };
let tokens = null; // of an issuer, to renew the session beyond the first one
let credential = null; // the Authorization header, only where there are no sessions
let dismissed = false;
let round = 0; // counts sign-ins
let waiting = []; // resolved when the user has signed in or does not want to
const signIns = [];
const afterSignIn = new Set();
const beforeForgetting = new Set();
let begun = null;
let renewal = null; // the timer
const listeners = new Set();
const tabs = new BroadcastChannel("registrar.session"); // of this browser and registry

function change(changed) {
  state = { ...state, ...changed };
  for (const each of listeners) each(state);
}

/** The session: { me, asking, error, ended }. me is the answer of GET /me, or null before it came. */
export function useSession() {
  const [found, setFound] = useState(state);
  useEffect(() => {
    setFound(state);
    listeners.add(setFound);
    return () => listeners.delete(setFound);
  }, []);
  return found;
}

/** Start, before anything is shown: the redirect's answer is in the URL. Requests wait until the user is known. */
export function begin() {
  authorizeWith(authorization);
  recoverWith(recovered);
  begun = start();
}

/** Resolves when the registry has said who the user is, or has failed to. */
export function started() {
  return begun;
}

/** Take what the issuer's redirect has brought, and ask who the user is. */
async function start() {
  tabs.onmessage = ({ data }) => heard(data);
  const returned = oidc.returned();
  try {
    if (returned) {
      tokens = (await oidc.complete(returned)).tokens;
      await open(`Bearer ${tokens.sent}`);
    }
    // With what is permitted on the subject that the page is about, which it would ask next.
    const about = addressed();
    const me = { ...(await askMe(credential, about)), about };
    change({ me, asking: me.signIn.required && me.principal === null });
    if (canSignOut() && !returned) keepAliveOf(me);
    if (returned) tabs.postMessage("in");
  } catch (error) {
    change({ error: error.message, me: await askMe().catch(() => null), asking: returned !== null });
    if (state.me === null) setTimeout(askAgain, AGAIN_MS);
  }
}

async function askAgain() {
  change({ me: await askMe().catch(() => null) });
  if (state.me === null) setTimeout(askAgain, AGAIN_MS);
}

/** Sign in with a name and a password. Rejects with the reason. */
export async function signInBasic(name, password) {
  const bytes = new TextEncoder().encode(`${name}:${password}`);
  try {
    await open(`Basic ${btoa(String.fromCharCode(...bytes))}`);
    signedIn(await askMe());
    tabs.postMessage("in");
  } catch (error) {
    throw error instanceof ApiError && error.status === 401 ? new Error("Wrong user name or password.") : error;
  }
}

/** Exchange credentials for a session; where there are none, they stay in memory. */
async function open(made) {
  credential = null;
  try {
    const answer = await request("POST", "/me/session", { credential: made, body: {} });
    const { lasts } = await answer.json();
    keepAlive(lasts, lasts);
  } catch (error) {
    if (!NO_SESSIONS.has(error.status)) throw error;
    await askMe(made);
    credential = made;
  }
}

/** Renew the session before it ends, while the page is shown. left, lasts: its seconds now, and after a renewal. */
function keepAlive(left, lasts, leastMs = RENEW_MIN_MS) {
  clearTimeout(renewal);
  const ms = Math.max(leastMs, (left - lasts * (1 - RENEWED_PART)) * 1000);
  renewal = setTimeout(renew, Math.min(ms, 2 ** 31 - 1));
}

/** The same for the session of GET /me, not before the page has loaded unless it ends sooner. */
function keepAliveOf({ session }) {
  if (!session) keepAlive(0, 0, LOADED_MS); // such as of a browser that sends a password by itself
  else keepAlive(session.left, session.lasts, Math.min(LOADED_MS, session.left * 1000 * RENEWED_PART));
}

async function renew() {
  if (document.hidden) {
    document.addEventListener("visibilitychange", renew, { once: true });
    return;
  }
  try {
    const due = tokens !== null && Date.now() > tokens.renewAt;
    if (due) tokens = await oidc.renew(tokens).catch(() => null);
    // By itself, a session lasts no longer than the token that it began with.
    const made = due && tokens ? `Bearer ${tokens.sent}` : null;
    const answer = await request("POST", "/me/session", { credential: made, body: {} });
    const { lasts } = await answer.json();
    keepAlive(lasts, lasts);
  } catch (error) {
    if (error.status === 401) ended();
    else if (error.temporary) renewal = setTimeout(renew, AGAIN_MS);
  }
}

/** Leave for the issuer; the page comes back signed in. Rejects with the reason if that cannot be begun. */
export function signInOidc() {
  return oidc.leave(state.me.signIn.oidc);
}

/** What another tab says: the user has signed "in" or "out", or "out" without a trace ("forget"). */
async function heard(said) {
  if (said === "out" || said === "forget") {
    leave(said === "forget");
    return;
  }
  const me = await askMe().catch(() => null);
  if (me?.principal) {
    signedIn(me);
    keepAliveOf(me);
  }
}

/** Resolves when the user signs in the next time. */
export function nextSignIn() {
  return new Promise((resolve) => { signIns.push(resolve); });
}

/** Call run after each time that the user signs in. Returns a function that ends this. */
export function onSignIn(run) {
  afterSignIn.add(run);
  return () => afterSignIn.delete(run);
}

/** Call run(principal) before the user signs out in any tab and wants nothing of theirs kept in this browser. */
export function onForget(run) {
  beforeForgetting.add(run);
}

/** Show the form, also if the user dismissed it before. */
export function askToSignIn() {
  dismissed = false;
  change({ asking: true, error: "" });
}

/** The user does not sign in: requests are sent without credentials. */
export function dismiss() {
  dismissed = true;
  change({ asking: false });
  release(false);
}

/**
 * End the session, here and in all tabs, on all nodes, also for copies of the cookie; then the pages are loaded again.
 * forget: true to keep nothing of the user in this browser. Rejects with the reason if the registry cannot end it.
 */
export async function signOut(forget) {
  try {
    await request("DELETE", "/me/session", { credential: null });
  } catch (error) {
    if (error.status !== 401 && !NO_SESSIONS.has(error.status)) throw error;
  }
  tabs.postMessage(forget ? "forget" : "out");
  leave(forget);
}

function leave(forget) {
  clearTimeout(renewal);
  credential = null;
  tokens = null;
  if (forget) for (const each of beforeForgetting) each(state.me?.principal);
  location.reload();
}

/** True if the user can sign out; a browser's certificate needs no session. */
export function canSignOut() {
  return state.me !== null && state.me.principal !== null && state.me.method !== "certificate";
}

function signedIn(me) {
  dismissed = false;
  round += 1;
  change({ me, asking: false, error: "", ended: false });
  release(true);
  for (const each of signIns.splice(0)) each();
  for (const each of [...afterSignIn]) each();
}

function release(done) {
  const released = waiting;
  waiting = [];
  for (const each of released) each(done);
}

async function askMe(made = credential, subject = undefined) {
  return (await request("GET", "/me", { credential: made, query: { subject } })).json();
}

/**
 * What a request is sent with. before: what it was sent with first, if this is a further try. Waits while a user who
 * has to sign in does so. Rejects if the request changes something and another user has signed in since it began.
 */
async function authorization(method, before) {
  await begun;
  const who = before ? before.who : state.me?.principal ?? null;
  const { me, ended: over } = state;
  if (!dismissed && me?.signIn.required && (over || me.principal === null)) await signedInOrNot();
  if (method !== "GET" && who !== null && state.me?.principal !== who) {
    throw new ApiError("refused", `${who} began this, and is not signed in any more. Nothing was sent.`);
  }
  return { header: credential, round, who };
}

/** The session has ended: the user, and what the page holds of theirs, stay. */
function ended() {
  clearTimeout(renewal);
  credential = null;
  if (state.me?.principal) change({ ended: true });
}

/** After a 401: true if the request should be sent again, because the user has signed in meanwhile. */
async function recovered(sent) {
  if (sent.round !== round) return true;
  // Without authentication it is a proxy that refuses, or settings have changed.
  if (!state.me?.signIn.required) change({ me: await askMe(null).catch(() => null) });
  if (dismissed || !state.me?.signIn.required) return false;
  ended();
  return signedInOrNot();
}

function signedInOrNot() {
  change({ asking: true });
  return new Promise((resolve) => { waiting.push(resolve); });
}
