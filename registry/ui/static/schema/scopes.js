// Names of subjects in contexts, and of the scopes that have a config and a mode.
import { plain } from "../names.js";

export const DEFAULT_CONTEXT = ".";
export const EVERYWHERE = ":.__GLOBAL:"; // holds the config and mode of all contexts

/** Returns the context of a qualified name. */
export function contextOf(subject) {
  const found = /^:(\.[^:]*)/.exec(subject);
  return found ? found[1] : DEFAULT_CONTEXT;
}

/** Returns the name that stands for a context itself. */
export function scopeOf(context) {
  return `:${context}:`;
}

/** Returns the name of a subject that a schema of another one refers to, with its context where that is needed. */
export function qualified(name, user) {
  const context = contextOf(user);
  return name.startsWith(":.") || context === DEFAULT_CONTEXT ? name : scopeOf(context) + name;
}

/** Returns words for a scope as `/scopes` names it. */
export function labelOf(scope) {
  if (scope === "") return "the top level";
  if (scope === EVERYWHERE) return "all contexts";
  return /^:\.[^:]*:$/.test(scope) ? `the context ${plain(contextOf(scope))}` : "this subject";
}
