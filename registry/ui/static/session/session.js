// The user of the console: credentials for requests, what GET /me says, and what is therefore permitted.
//
// Credentials are in memory, and in sessionStorage only if the user chose so: they never reach localStorage or a URL.
import { useEffect, useState } from "../vendor.js";
import { ApiError, authorizeWith, recoverWith, request } from "../api.js";
import * as oidc from "./oidc.js";

const KEPT = "registrar.session";
const AGAIN_MS = 5000;

let state = { me: null, asking: false, error: "", ended: false };
let credential = null; // { kind: "basic", header } or { kind: "oidc", tokens }
let kept = false;
let dismissed = false;
let waiting = []; // resolved when the user has signed in or does not want to
const signIns = [];
const afterSignIn = new Set();
let renewing = null;
let begun = null;
const listeners = new Set();

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

/** Take what this tab has kept, or what the issuer's redirect has brought, and ask who the user is. */
async function start() {
  credential = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
  kept = credential !== null;
  const returned = oidc.returned();
  try {
    if (returned) {
      const { tokens, keep } = await oidc.complete(returned);
      take({ kind: "oidc", tokens }, keep);
    }
    const me = await askMe(await header());
    change({ me, asking: me.signIn.required && me.principal === null });
  } catch (error) {
    if (error.status === 401) forget();
    change({ error: error.message, me: await askMe(await header()).catch(() => null), asking: returned !== null });
    if (state.me === null) setTimeout(askAgain, AGAIN_MS);
  }
}

async function askAgain() {
  change({ me: await askMe(await header()).catch(() => null) });
  if (state.me === null) setTimeout(askAgain, AGAIN_MS);
}

/** Sign in with a name and a password. Rejects with the reason. */
export async function signInBasic(name, password, keep) {
  const bytes = new TextEncoder().encode(`${name}:${password}`);
  const made = `Basic ${btoa(String.fromCharCode(...bytes))}`;
  try {
    const me = await askMe(made);
    take({ kind: "basic", header: made }, keep);
    signedIn(me);
  } catch (error) {
    throw error instanceof ApiError && error.status === 401 ? new Error("Wrong user name or password.") : error;
  }
}

/** Leave for the issuer; the page comes back signed in. Rejects with the reason if that cannot be begun. */
export function signInOidc(keep) {
  return oidc.leave(state.me.signIn.oidc, keep);
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

/** Show the form, also if the user dismissed it before. */
export function askToSignIn() {
  dismissed = false;
  change({ asking: true, error: "" });
}

/** The user does not sign in: requests go on without credentials. */
export function dismiss() {
  dismissed = true;
  change({ asking: false });
  release(false);
}

/** Forget the credentials and all that the page shows. */
export function signOut() {
  forget();
  location.reload();
}

/** True if the page holds credentials that it can forget; a browser's certificate is none of them. */
export function canSignOut() {
  return credential !== null;
}

function take(taken, keep) {
  credential = taken;
  kept = keep;
  if (keep) sessionStorage.setItem(KEPT, JSON.stringify(credential));
}

function forget() {
  credential = null;
  kept = false;
  sessionStorage.removeItem(KEPT);
}

function signedIn(me) {
  dismissed = false;
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

async function askMe(credential) {
  return (await request("GET", "/me", { credential })).json();
}

/** The Authorization header of a request. Waits while a user who has to sign in does so. */
async function authorization() {
  await begun;
  const found = await header();
  if (found !== null || dismissed || !state.me?.signIn.required || state.me.principal !== null) return found;
  await signedInOrNot();
  return header();
}

async function header() {
  if (credential?.kind === "basic") return credential.header;
  if (credential?.kind !== "oidc") return null;
  if (Date.now() > credential.tokens.renewAt) await renewed();
  return credential && `Bearer ${credential.tokens.sent}`;
}

/** Get new tokens once for all requests; without them, the session has ended. */
async function renewed() {
  const before = credential;
  renewing ??= oidc.renew(before.tokens)
    .then(
      // The user may have signed out meanwhile.
      (tokens) => { if (credential === before) take({ kind: "oidc", tokens }, kept); },
      () => { if (credential === before && Date.now() > before.tokens.expires) ended(); },
    )
    .finally(() => { renewing = null; });
  await renewing;
}

function ended() {
  forget();
  change({ ended: true, me: state.me && { ...state.me, principal: null } });
}

/** After a 401: true if the request should be sent again, because the user has signed in meanwhile. */
async function recovered(sent) {
  if (sent !== await header()) return true;
  // Without authentication it is a proxy that refuses, or settings have changed.
  if (!state.me?.signIn.required) change({ me: await askMe(null).catch(() => null) });
  if (dismissed || !state.me?.signIn.required) return false;
  if (sent !== null) ended();
  return signedInOrNot();
}

function signedInOrNot() {
  change({ asking: true });
  return new Promise((resolve) => { waiting.push(resolve); });
}
