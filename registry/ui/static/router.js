// Addresses below "#": the page's state is in its URL, and never reaches a server's access log.
import { useEffect, useState } from "./vendor.js";

let shown; // the address of the page that is shown; after a click on a link the browser's is ahead of it for a moment

/** The address of a page: href`/subjects/${name}`; with a query: href(to("/subjects", { q: "x" })). */
export function href(literals, ...values) {
  return `#${to(literals, ...values)}`;
}

/** The same without "#", for navigate(): to`/subjects/${name}`, or to("/subjects", { q: "orders" }). */
export function to(first, ...values) {
  if (Array.isArray(first)) {
    return first.reduce((made, literal, index) => made + encodeURIComponent(values[index - 1]) + literal);
  }
  const query = new URLSearchParams(Object.entries(values[0] ?? {}).filter(([, value]) => value));
  return query.size ? `${first}?${query}` : first;
}

/**
 * Go to a page. replace: without an entry in the history, for what changes as one types; it does nothing if the user
 * has just left the page.
 */
export function navigate(target, { replace = false } = {}) {
  if (`#${target}` === location.hash || (replace && location.hash !== shown)) return;
  if (replace) history.replaceState(history.state, "", `#${target}`);
  else history.pushState(null, "", `#${target}`);
  dispatchEvent(new Event("hashchange"));
}

/** Keep a value, such as a scroll position, with this entry of the history; `kept` returns it after Back. */
export function keep(name, value) {
  if (location.hash === shown) history.replaceState({ ...history.state, [name]: value }, "");
}

/** What `keep` has kept with this entry of the history; undefined if nothing. */
export function kept(name) {
  return history.state?.[name];
}

/**
 * The current page among routes: { route, params, query, path }; route is undefined for an unknown address, and start
 * is the path of the page without one. Only the shell knows the routes: they load the pages, which import this module.
 */
export function useLocation(routes, start) {
  const [found, setFound] = useState(() => parsed(routes, start));
  useEffect(() => {
    const changed = () => setFound(parsed(routes, start));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return found;
}

function parsed(routes, start) {
  shown = location.hash;
  const [where, search] = split(location.hash.slice(1) || start);
  const segments = where.split("/").slice(1).map(decoded);
  const query = Object.fromEntries(new URLSearchParams(search));
  for (const route of routes) {
    const params = matched(route.path.split("/").slice(1), segments);
    if (params) return { route, params, query, path: where };
  }
  return { route: undefined, params: {}, query, path: where };
}

/** The subject that the address of the browser is about, or the scope; undefined if it names none. */
export function addressed() {
  const [where, search] = split(location.hash.slice(1));
  const [, , subject] = /^\/(usage\/)?subjects\/([^/]+)/.exec(where) ?? [];
  return subject === undefined ? new URLSearchParams(search).get("subject") ?? undefined : decoded(subject);
}

function split(text) {
  const at = text.indexOf("?");
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

function matched(pattern, segments) {
  if (pattern.length !== segments.length) return null;
  const params = {};
  for (const [index, part] of pattern.entries()) {
    if (part.startsWith(":")) params[part.slice(1)] = segments[index];
    else if (part !== segments[index]) return null;
  }
  return params;
}

function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment; // typed by hand
  }
}
