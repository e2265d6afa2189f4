// Downloads schemas as an archive that `registrar upload` and the page Upload read.
import { plain } from "../names.js";
import { html, useEffect, useRef, useState } from "../vendor.js";
import { pages, request } from "../api.js";
import { Planning } from "../bulk/plan.js";
import { CopyButton } from "../components/copy-button.js";
import { Failure, KEPT_INSIDE } from "../components/notice.js";
import { bytes, count } from "../cluster/units.js";
import { formatOf } from "../formats.js";
import { usePermitted } from "../session/permitted.js";
import { filesOf } from "./files.js";
import { zipped } from "./zip.js";

const PAGE = 1000;
const SCOPES_PAGE = 1000;
const TEXT_MAX = 64 * 1024 * 1024; // characters of all schemas: an archive is made in memory
const VERSIONS_MAX = 30_000; // each has two files
const REGISTRY = new URL("..", document.baseURI).href.replace(/\/$/, "");

/** query: prefix, which; onChange(changes of the query). */
export function Download({ query, onChange }) {
  const { prefix = "", which = "latest" } = query;
  const isAdmin = usePermitted()("admin") === "";
  const [state, setState] = useState({});
  const running = useRef(null);
  useEffect(() => () => running.current?.abort(), []);
  const begin = async (event) => {
    event.preventDefault();
    const stopped = new AbortController();
    running.current = stopped;
    const show = (next) => stopped.signal.aborted || setState(next);
    try {
      show({ progress: "Reading schemas" });
      const found = await collected({ prefix, which, isAdmin }, stopped.signal, (progress) => show({ progress }));
      if (stopped.signal.aborted) return;
      save(found.blob, "schemas.zip");
      show({ done: found });
    } catch (error) {
      show({ error });
    }
  };
  const cancel = () => {
    running.current.abort();
    setState({});
  };
  const { progress, done, error } = state;
  const command = `registrar download schemas --versions all --url ${REGISTRY}`;
  return html`
    <p>An archive with a folder for each version: its text, and what the registry says of it. The page
      ${" "}<em>Upload</em> and <code>registrar upload</code> read it.</p>
    <form class="actions" onSubmit=${begin}>
      <label>Subjects with the prefix <input type="search" value=${prefix} placeholder="all" spellcheck=${false}
        onInput=${(event) => onChange({ prefix: event.currentTarget.value })} /></label>
      <label>Versions <select value=${which} onChange=${(event) => onChange({ which: event.currentTarget.value })}>
        <option value="latest">the latest</option><option value="all">all</option>
        <option value="deleted">all, also soft-deleted</option></select></label>
      <button class="primary" disabled=${progress !== undefined}>Download</button>
    </form>
    ${progress !== undefined && html`<${Planning} text=${progress} title="Making the archive…" onCancel=${cancel} />`}
    ${done && html`<p role="status">${count(done.versions)} versions, ${bytes(done.blob.size)}.${done.cut
      ? " There are more than one archive holds: narrow the prefix, or use the command line." : ""}
      ${done.partly && ` Configs and modes are left out. ${KEPT_INSIDE}`}</p>`}
    ${error && (error.kind ? html`<${Failure} error=${error} />` : html`<p role="alert">${plain(error.message)}.</p>`)}
    ${!isAdmin && html`<p class="quiet">Configs and modes are left out: reading all of them requires admin.</p>`}
    <p class="command quiet">On the command line, without limits: <code class="wrap">${command}</code>
      ${" "}<${CopyButton} text=${command} label="Copy the command" /></p>`;
}

async function collected({ prefix, which, isAdmin }, signal, report) {
  const versions = [];
  let [size, cut] = [0, false];
  const query = { subjectPrefix: prefix || ":*:", latestOnly: which === "latest" || undefined,
    deleted: which === "deleted" || undefined };
  for await (const page of pages("/schemas", { query, limit: PAGE, signal })) {
    for (const each of page) {
      size += each.schema.length;
      cut = size > TEXT_MAX || versions.length >= VERSIONS_MAX;
      if (cut) break;
      versions.push(each);
    }
    report(`${count(versions.length)} versions`);
    if (cut) break;
  }
  const covered = new Set(versions.map(({ subject }) => subject));
  const isCovered = (scope) => covered.has(scope) || (prefix === "" && (scope === "" || scope.endsWith(":")));
  const [configs, modes] = isAdmin ? await Promise.all(["configs", "modes"].map((what) =>
    scopesOf(what, isCovered, signal).catch(noneIfKeptInside))) : [{}, {}];
  const about = { id: "download", registry: REGISTRY, prefix, versions: which };
  const files = filesOf(versions, { configs: configs ?? {}, modes: modes ?? {}, about,
    extensionOf: (each) => formatOf(each).extension || "txt" });
  const blob = await zipped(files,
    { signal, report: (done) => report(`${count(done)} of ${count(files.size)} files are in the archive`) });
  return { blob, versions: versions.length, cut, partly: configs === null || modes === null };
}

function noneIfKeptInside(error) {
  if (error.keptInside) return null;
  throw error;
}

async function scopesOf(what, isCovered, signal) {
  const found = {};
  for (let after = null; ;) {
    const answer = await request("GET", `/admin/${what}`, { query: { limit: SCOPES_PAGE, after }, signal });
    const page = await answer.json();
    for (const { subject, ...stored } of page) if (isCovered(subject)) found[subject] = stored;
    if (page.length < SCOPES_PAGE) return found;
    after = page.at(-1).subject;
  }
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
