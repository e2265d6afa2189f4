// Makes the plan of an upload, and registers its versions: nothing else is changed.
import { getWithTag, path, send } from "../api.js";
import { KEEP, REGISTER, isVerdict } from "../bulk/steps.js";
import { plain } from "../names.js";
import { bodyOf } from "../schema/reading.js";
import { byReferences, qualified } from "./files.js";

const keyOf = (subject, version) => JSON.stringify([subject, Number(version)]);

/** An upload: what is known of the registry, and of what has been registered so far. */
export class Upload {
  #numbers = new Map(); // of the files' versions in the registry
  #tags = new Map(); // of the latest versions, as the plan saw them

  /** Returns the steps for versions as `versionsIn` returns them; it only reads. report(text): how far it is. */
  async plan(versions, { signal, report }) {
    const steps = [];
    const order = byReferences(versions);
    const own = new Set(order.map((each) => keyOf(each.subject, each.version)));
    for (const [index, each] of order.entries()) {
      report(`${index} of ${order.length} versions checked`);
      steps.push(await this.#step(each, own, signal));
    }
    return steps;
  }

  async #step(found, own, signal) {
    const { subject, version } = found;
    const made = (action, reason) => ({ subject, version, id: null, action, reason, found });
    if (!this.#tags.has(subject)) this.#tags.set(subject, await tagOf(subject, signal));
    const waiting = (found.references ?? []).find((each) => this.#isAwaited(each, subject, own));
    if (waiting) return made(REGISTER, `refers to ${plain(waiting.subject)}, so it is checked when it is registered`);
    const body = this.#body(found);
    try {
      if (this.#tags.get(subject) === null) {
        const { valid, message } = await send("POST", "/schemas/lint", { query: { subject }, body, signal });
        return valid ? made(REGISTER, "a new subject") : made(KEEP, `not valid: ${plain(message)}`);
      }
      const there = await registered(subject, body, signal);
      if (there !== null) {
        this.#numbers.set(keyOf(subject, version), there);
        return made(KEEP, `registered already, as version ${there}`);
      }
      const { is_compatible: compatible, messages = [] } = await send("POST",
        path`/compatibility/subjects/${subject}/versions`, { query: { verbose: true }, body, signal });
      return compatible ? made(REGISTER, "compatible") : made(KEEP, `incompatible: ${messages[0] ?? "see Try"}`);
    } catch (error) {
      if (!isVerdict(error)) throw error;
      return made(KEEP, error.message);
    }
  }

  #isAwaited({ subject, version }, within, own) {
    const key = keyOf(qualified(subject, within), version);
    return own.has(key) && !this.#numbers.has(key);
  }

  /** The registration's body, with the numbers that versions have in the registry. */
  #body(found) {
    const references = (found.references ?? []).map((each) => {
      const number = this.#numbers.get(keyOf(qualified(each.subject, found.subject), each.version));
      return number === undefined ? each : { ...each, version: number };
    });
    return bodyOf({ ...found, references });
  }

  /** Register the version of a step, if its subject is as the plan saw it; promises a note. */
  async perform({ subject, version, found }) {
    const answer = await send("POST", path`/subjects/${subject}/versions`,
      { body: this.#body(found), tag: this.#tags.get(subject) });
    this.#numbers.set(keyOf(subject, version), answer.version);
    this.#tags.set(subject, await tagOf(subject));
    return `as version ${answer.version}, id ${answer.id}`;
  }
}

async function tagOf(subject, signal) {
  return (await getWithTag(path`/subjects/${subject}/versions/latest`, { signal })).tag;
}

async function registered(subject, body, signal) {
  try {
    return (await send("POST", path`/subjects/${subject}`, { body, signal })).version;
  } catch (error) {
    if (!error.notFound) throw error;
    return null;
  }
}
