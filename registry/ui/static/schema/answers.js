// Sentences about a subject.

const OWNER = /^(owner|owners|team|contact)$/i;

/** What a level asks of a new version. */
export const MEANINGS = {
  NONE: "NONE: a new version may be anything.",
  BACKWARD: "BACKWARD: a new version must read what the latest one wrote.",
  BACKWARD_TRANSITIVE: "BACKWARD_TRANSITIVE: a new version must read what all earlier ones wrote.",
  FORWARD: "FORWARD: the latest version must read what a new one writes.",
  FORWARD_TRANSITIVE: "FORWARD_TRANSITIVE: all earlier versions must read what a new one writes.",
  FULL: "FULL: a new version and the latest one must read each other's data.",
  FULL_TRANSITIVE: "FULL_TRANSITIVE: a new version and all earlier ones must read each other's data.",
};

/** Returns the metadata properties that name an owner: `[{ name, value, sensitive }]`. */
export function ownersOf(metadata) {
  const hidden = metadata?.sensitive ?? [];
  return Object.entries(metadata?.properties ?? {}).filter(([name]) => OWNER.test(name))
    .map(([name, value]) => ({ name, value, sensitive: hidden.includes(name) }));
}

/**
 * Returns where the newest census found a subject, `{ sentence, sources, more, note }`: the sources with the most
 * messages, and the number of others. found: as `/summary` has it; now: in ms.
 */
export function usedIn({ census, messages, exact, sources, sourceCount, complete }, now = Date.now()) {
  if (!census) return { sentence: "not known: no census was taken", sources: [], more: 0, note: "" };
  const note = now > census.usableUntil ? "The census is old." : census.complete ? "" : "The census is not complete.";
  if (!sourceCount) {
    const sentence = census.complete ? "no message names it" : "no message that was read";
    return { sentence, sources: [], more: 0, note };
  }
  const count = `${exact ? "" : "at most "}${messages.toLocaleString()} ${messages === 1 ? "message" : "messages"}`;
  return {
    sentence: complete ? count : `${count} of its newest versions`,
    sources: sources.map(({ source }) => source), more: sourceCount - sources.length, note,
  };
}

const SENTENCES = { true: "It may follow version", false: "It breaks what the level asks of it after version" };

/** Returns a sentence about an entry of the timeline that has a `previous` version, and the level in effect. */
export function changeOf({ level, previous, previousType, compatible }) {
  const other = previousType === undefined ? "" : ` Version ${previous} is of another type.`;
  if (level === "NONE") return `The level NONE compares nothing.${other}`;
  return compatible === undefined ? `It is not compared with version ${previous}.${other}`
    : `${SENTENCES[compatible]} ${previous} (${level}).${other}`;
}

/**
 * Returns who has asked for a subject, `{ sentence, names, more }`: the last ones, if one may see them, and the number
 * of others. found: as `/summary` has it.
 */
export function askedBy(found) {
  if (found.since === null) return { sentence: "not known: requests are not counted", names: [], more: 0 };
  const { askerCount, askers, requests, last, since, other, missingCount } = found;
  const partly = other > 0 || missingCount > 0 ? " at least" : "";
  if (!askerCount) return { sentence: `${partly ? "nobody known" : "nobody"} since ${since}`, names: [], more: 0 };
  const clients = askerCount === 1 ? "1 client" : `${askerCount.toLocaleString()} clients`;
  const names = [...new Set(askers.map(({ principal, address }) => principal || address))];
  const times = requests === 1 ? "once" : `${requests.toLocaleString()} times`;
  return {
    sentence: `${partly.trim()}${partly && " "}${clients}, ${times} since ${since}, last on ${last}`,
    names, more: names.length ? Math.max(0, askerCount - names.length) : 0,
  };
}
