// OpenID Connect: the authorization code flow with PKCE, for a public client, against any issuer.
//
// What has to outlive the redirect (state, nonce, code verifier) is in this tab's sessionStorage until the page is
// back.

const PENDING = "registrar.oidc";
const TIMEOUT_MS = 10_000;
const BEFORE_MS = 30_000; // tokens are renewed so long before they expire

/** What an issuer's redirect has brought to this page, removed from the URL; null if it is an ordinary visit. */
export function returned() {
  const fromFragment = new URLSearchParams(location.hash.slice(1));
  const fromQuery = new URLSearchParams(location.search);
  const found = [fromFragment, fromQuery].find((each) => each.has("state") && (each.has("code") || each.has("error")));
  if (!found) return null;
  const pending = JSON.parse(sessionStorage.getItem(PENDING) ?? "null");
  sessionStorage.removeItem(PENDING);
  history.replaceState(null, "", `${here()}${pending?.hash ?? ""}`);
  return { answer: found, pending };
}

/** Leave for the issuer's page. configured: signIn.oidc of GET /me. */
export async function leave(configured) {
  if (!crypto.subtle) throw new Error("Sign-in at an issuer requires https.");
  const found = await discovered(configured.issuer);
  const [state, nonce, verifier] = [random(), random(), random()];
  const hash = location.hash;
  sessionStorage.setItem(PENDING, JSON.stringify({ state, nonce, verifier, hash, configured }));
  const target = new URL(endpoint(found, "authorization_endpoint"));
  const wanted = {
    response_type: "code", client_id: configured.clientId, redirect_uri: here(), scope: configured.scopes, state, nonce,
    code_challenge: await challenge(verifier), code_challenge_method: "S256",
    // The fragment of a URL reaches no server, and so no access log.
    ...(found.response_modes_supported?.includes("fragment") ? { response_mode: "fragment" } : {}),
    ...(configured.audience ? { audience: configured.audience } : {}),
  };
  for (const [name, value] of Object.entries(wanted)) target.searchParams.set(name, value);
  location.assign(target);
}

/** Exchange the code for tokens: { tokens }. Rejects with the reason. */
export async function complete({ answer, pending }) {
  if (!pending || answer.get("state") !== pending.state) {
    throw new Error("This sign-in has expired or was started elsewhere. Sign in again.");
  }
  const { configured, nonce, verifier } = pending;
  if (answer.has("iss") && answer.get("iss") !== configured.issuer) throw new Error("Another issuer has answered.");
  if (answer.has("error")) {
    throw new Error(`The issuer refused: ${answer.get("error_description") ?? answer.get("error")}`);
  }
  const form =
    { grant_type: "authorization_code", code: answer.get("code"), redirect_uri: here(), code_verifier: verifier };
  return { tokens: await fetched(configured, form, nonce) };
}

/** New tokens by the refresh token of old ones. Rejects if there is none, or the issuer refuses. */
export async function renew({ refresh, configured }) {
  if (!refresh) throw new Error("The session has ended.");
  const tokens = await fetched(configured, { grant_type: "refresh_token", refresh_token: refresh });
  return { ...tokens, refresh: tokens.refresh ?? refresh };
}

async function fetched(configured, form, nonce) {
  const found = await discovered(configured.issuer);
  const body = new URLSearchParams({ ...form, client_id: configured.clientId });
  const answer = await asked(endpoint(found, "token_endpoint"), { method: "POST", body });
  if (nonce !== undefined) checkIdentity(answer.id_token, configured, nonce);
  const sent = configured.token === "id" ? answer.id_token : answer.access_token;
  if (!sent) throw new Error("The issuer did not return a token.");
  const lifetimeS = Number(answer.expires_in) || (claims(sent).exp ?? 0) - Date.now() / 1000;
  const expires = Date.now() + lifetimeS * 1000;
  const renewAt = expires - Math.min(BEFORE_MS, lifetimeS * 200);
  return { sent, refresh: answer.refresh_token, expires, renewAt, configured };
}

// It comes from the issuer itself, so its signature says nothing more; the registry verifies that of the token it gets.
function checkIdentity(token, { issuer, clientId }, nonce) {
  if (!token) throw new Error("The issuer did not return an ID token; the scopes must include openid.");
  const { iss, aud, nonce: given } = claims(token);
  if (iss !== issuer || ![aud].flat().includes(clientId) || given !== nonce) {
    throw new Error("The issuer's ID token belongs to another sign-in.");
  }
}

function claims(token) {
  try {
    const bytes =
      Uint8Array.from(atob(token.split(".")[1].replace(/-/g, "+").replace(/_/g, "/")), (each) => each.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return {};
  }
}

async function discovered(issuer) {
  const found = await asked(`${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`);
  if (found.issuer !== issuer) throw new Error(`The issuer identifies itself as ${found.issuer}, not ${issuer}.`);
  return found;
}

function endpoint(found, name) {
  const url = new URL(found[name]);
  if (!["https:", "http:"].includes(url.protocol)) throw new Error(`The issuer's ${name} is no URL of a page.`);
  return url.href;
}

async function asked(url, options = {}) {
  let answer;
  try {
    answer = await fetch(url, {
      ...options, mode: "cors", credentials: "omit", cache: "no-store", redirect: "error",
        referrerPolicy: "no-referrer",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
  } catch {
    throw new Error(`${new URL(url).origin} cannot be reached, or does not allow this page's origin (CORS).`);
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(
    `The issuer refused: ${body.error_description ?? body.error ?? `HTTP ${answer.status}`}`);
  return body;
}

function here() {
  return new URL(document.baseURI).origin + new URL(document.baseURI).pathname;
}

function random() {
  return base64(crypto.getRandomValues(new Uint8Array(32)));
}

async function challenge(verifier) {
  return base64(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier))));
}

function base64(bytes) {
  return btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");
}
