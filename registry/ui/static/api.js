// The registry's API. Paths are relative to the page, so that they work behind a proxy that adds a prefix.

const ROOT = new URL("..", document.baseURI);
// What is for administrators, and what the examples of proxies do not pass on.
const INNER = /^\/(admin|metrics|node|quarantine|usage\/(sources|unknown))(\/|$)/;
const JSON_TYPE = "application/json";

/**
 * What a request may say. query: texts, numbers, booleans or arrays of them; tag: see `send`; credential: see
 * `request`.
 *
 * @typedef {object} Options
 * @property {Record<string, any>} [query]
 * @property {any} [body]
 * @property {AbortSignal} [signal]
 * @property {Record<string, string>} [headers]
 * @property {string | null} [tag]
 * @property {string | null} [credential]
 */

/** @type {(method: string, before?: any) => Promise<{ header: string | null }>} */
let authorization = async () => ({ header: null });
/** @type {(sent: any) => Promise<boolean>} */
let recovered = async () => false;
let writing = 0; // requests of this page that change something and have no answer yet
let seen = null; // the end of the log, as far as this page has seen it

/** An answer that is not a success, or none at all. */
export class ApiError extends Error {
  /**
   * kind: "unreachable" (no answer), "refused" (an error of the registry) or "foreign" (not the registry's answer).
   * status: of HTTP, 0 without an answer; code: the registry's error_code; retryAfter: seconds, or null; where: the
   * path of the request.
   *
   * @param {"unreachable" | "refused" | "foreign"} kind
   * @param {string} message
   * @param {{ status?: number, code?: number, retryAfter?: number | null, where?: string }} [details]
   */
  constructor(kind, message, { status = 0, code = 0, retryAfter = null, where = "" } = {}) {
    super(message);
    this.kind = kind;
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
    this.where = where;
  }

  /** True if the registry says that something does not exist; others who say so know nothing of it. */
  get notFound() {
    return this.kind === "refused" && this.status === 404;
  }

  /** True if a proxy has answered what is for administrators: it keeps that inside. */
  get keptInside() {
    return this.kind === "foreign" && (this.status === 403 || this.status === 404) && INNER.test(this.where);
  }

  /** True if the same request may succeed later. */
  get temporary() {
    return this.kind === "unreachable" || this.retryAfter !== null || this.status >= 502;
  }
}

/**
 * Set the function that returns with what a request of a method is sent: { header }, the value of Authorization or
 * null; it may wait until the user has signed in. A further try of a request passes what was returned before.
 */
export function authorizeWith(source) {
  authorization = source;
}

/** Set the function that is called after a 401 with what was sent; true: send the request again. */
export function recoverWith(source) {
  recovered = source;
}

/** True while this page changes something: who sent that then shows what became of it. */
export function isWriting() {
  return writing > 0;
}

/**
 * The end of the log, as far as this page has seen it: by its first answer, its own writes and the feed; null: not yet.
 */
export function seenOffset() {
  return seen;
}

/** Later reads include what lies before this offset of the log, on any node. null: what was seen no longer counts. */
export function readFrom(offset) {
  seen = offset === null ? null : Math.max(seen ?? 0, offset);
}

/** A path whose values are encoded: path`/subjects/${name}/versions/${version}`. */
export function path(literals, ...values) {
  return literals.reduce((made, literal, index) => made + segment(values[index - 1]) + literal);
}

function segment(value) {
  // URLs have no segment for these two, not even encoded; with their context they are no dots.
  const text = String(value);
  return encodeURIComponent(text === "." || text === ".." ? `:.:${text}` : text);
}

/**
 * GET; returns the JSON.
 *
 * @param {string} where
 * @param {Options} [options]
 */
export async function get(where, { query, signal, headers } = {}) {
  return (await request("GET", where, { query, signal, headers })).json();
}

/**
 * GET; returns the text, such as a schema's.
 *
 * @param {string} where
 * @param {Options} [options]
 */
export async function getText(where, { query, signal } = {}) {
  return (await request("GET", where, { query, signal, headers: { accept: "text/plain, */*" } })).text();
}

/**
 * GET of what can be changed: { value, tag, seen }. value: null if it does not exist; tag: for `send`; seen: the offset
 * before which the log is reflected.
 *
 * @param {string} where
 * @param {Options} [options]
 */
export async function getWithTag(where, options) {
  const seenIn = ({ headers }) => Number(headers.get("x-registry-offset"));
  try {
    const answer = await request("GET", where, options);
    return { value: await answer.json(), tag: answer.headers.get("etag") ?? undefined, seen: seenIn(answer) };
  } catch (error) {
    if (!error.notFound) throw error;
    return { value: null, tag: null, seen: seenOffset() ?? 0 };
  }
}

/**
 * Send a body as JSON by POST, PUT or DELETE; returns the answer's JSON. tag: of what was read and is to be changed,
 * null if it did not exist; if it is another one now, nothing is changed, and this throws an ApiError with status 412.
 *
 * @param {string} method
 * @param {string} where
 * @param {Options} [options]
 */
export async function send(method, where, options) {
  return (await submit(method, where, options)).json();
}

/**
 * Like `send`, for answers without JSON or with headers that matter: returns the answer itself.
 *
 * @param {string} method
 * @param {string} where
 * @param {Options} [options]
 */
export async function submit(method, where, { body, query, signal, tag } = {}) {
  /** @type {Record<string, string>} */
  const headers = tag === undefined ? {} : tag === null ? { "if-none-match": "*" } : { "if-match": tag };
  writing += 1;
  const answer = await request(method, where, { body, query, signal, headers }).finally(() => { writing -= 1; });
  readFrom(Number(answer.headers.get("x-registry-offset")));
  return answer;
}

/**
 * The pages of a list, one array after another, by the cursors of its Link headers. limit: a number, or a function of
 * the page's number; warned(text) is called with what the registry says about the list.
 *
 * @param {string} where
 * @param {Options & { limit?: number | ((page: number) => number), warned?: (text: string) => void }} [options]
 */
export async function* pages(where, { query = {}, limit, signal, warned } = {}) {
  let cursor;
  for (let page = 0; page === 0 || cursor; page += 1) {
    const size = typeof limit === "function" ? limit(page) : limit;
    const answer = await request("GET", where, { query: { ...query, limit: size, cursor }, signal });
    cursor = cursorOf(answer);
    const warning = warningOf(answer);
    if (warning) warned?.(warning);
    yield await answer.json();
  }
}

/**
 * The objects of an answer that has one JSON object a line, as they come.
 *
 * @param {string} where
 * @param {Options} [options]
 */
export async function* lines(where, { query, signal } = {}) {
  const answer = await request("GET", where, { query, signal, headers: { accept: "application/x-ndjson" } });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const complete = (rest + value).split("\n");
      rest = complete.pop();
      yield* complete.filter((line) => line !== "").map((line) => JSON.parse(line));
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("unreachable", "The registry's response was cut off");
  }
}

// What may be missing at the end of an object that is sent member by member.
const CLOSINGS = ["", "}", "}}"];

/**
 * What an answer says so far, and in the end: one JSON object, which the registry sends as it finds its members.
 *
 * @param {string} method
 * @param {string} where
 * @param {Options} [options]
 */
export async function* growing(method, where, options) {
  const answer = await request(method, where, options);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      text += value;
      const known = CLOSINGS.map((each) => parsedOrNot(text + each)).find((each) => each !== undefined);
      if (known !== undefined) yield known;
    }
    yield JSON.parse(text);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("unreachable", "The registry's response was cut off");
  }
}

function parsedOrNot(text) {
  if (!text.endsWith("}")) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Throws the error that stands in an answer in place of a member, if it is one; returns the member. */
export function memberOf(found) {
  if (found?.error_code === undefined) return found;
  const status = found.error_code < 1000 ? found.error_code : Math.floor(found.error_code / 100);
  throw new ApiError("refused", String(found.message), { status, code: found.error_code });
}

/**
 * The answer of a request that succeeded; throws ApiError, or the signal's AbortError. credential: the value of the
 * Authorization header (null: none), for requests that do not wait for the user to sign in.
 *
 * @param {string} method
 * @param {string} where
 * @param {Options} [options]
 */
export async function request(method, where, options = {}) {
  const given = options.credential !== undefined;
  let sent = given ? { header: options.credential } : await authorization(method);
  let answer = await answered(method, where, sent.header, options);
  while (answer.status === 401 && !given && await recovered(sent)) {
    sent = await authorization(method, sent);
    answer = await answered(method, where, sent.header, options);
  }
  if (!answer.ok) throw await refusalOf(answer, where);
  return answer;
}

/**
 * @param {string} method
 * @param {string} where
 * @param {string | null} credential
 * @param {Options} options
 */
async function answered(method, where, credential, { query, body, signal, headers = {} }) {
  const url = new URL(`.${where}`, ROOT);
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const each of [value].flat()) {
      if (each !== undefined && each !== null && each !== "") url.searchParams.append(name, each);
    }
  }
  const sent = {
    accept: JSON_TYPE,
    "x-requested-with": "fetch", // so that a 401 does not open the browser's own dialog
    ...(body === undefined ? {} : { "content-type": JSON_TYPE }),
    ...(credential ? { authorization: credential } : {}),
    ...(seen !== null && method === "GET" ? { "x-registry-min-offset": seen } : {}),
    ...headers,
  };
  try {
    const answer = await fetch(url, {
      method, signal, headers: sent, body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store", redirect: "error", referrerPolicy: "no-referrer",
    });
    const offset = answer.headers.get("x-registry-offset");
    if (seen === null && offset !== null) readFrom(Number(offset));
    return answer;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("unreachable", "The registry cannot be reached");
  }
}

async function refusalOf(answer, where) {
  const { status, headers } = answer;
  const wait = headers.get("retry-after");
  const retryAfter = wait === null || Number.isNaN(Number(wait)) ? null : Number(wait);
  const { error_code: code, message } = await answer.json().catch(() => ({})) ?? {};
  return typeof code === "number"
    ? new ApiError("refused", String(message), { status, code, retryAfter, where })
    : new ApiError("foreign", `HTTP ${status}, not from the registry`, { status, retryAfter, where });
}

/**
 * What an answer says besides its content, such as that it is not all; null: nothing.
 *
 * @param {Response} answer
 */
export function warningOf(answer) {
  const [, text] = /^299 \S+ "((?:[^"\\]|\\.)*)"/.exec(answer.headers.get("warning") ?? "") ?? [];
  return text?.replace(/\\(.)/g, "$1") ?? null;
}

function cursorOf(answer) {
  const [, target] = /<([^>]*)>\s*;\s*rel="?next"?/.exec(answer.headers.get("link") ?? "") ?? [];
  return target && new URL(target, ROOT).searchParams.get("cursor");
}
