// Uploads files, a folder or an archive of schemas: first a plan, then what of it the user wants.
import { plain } from "../names.js";
import { html, useEffect, useRef, useState } from "../vendor.js";
import { Plan, Planning } from "../bulk/plan.js";
import { Failure, Notice } from "../components/notice.js";
import { formats } from "../formats.js";
import { isRead, versionsIn } from "./files.js";
import { Upload as Uploading } from "./uploading.js";
import { unzipped } from "./zip.js";

const BYTES_MAX = 64 * 1024 * 1024;
const VERSIONS_MAX = 2000;
const MANIFEST = "registrar.toml";

export function Upload() {
  const [state, setState] = useState({ round: 0 });
  const running = useRef(null);
  useEffect(() => () => running.current?.abort(), []);
  const choose = async (event) => {
    const chosen = [...event.currentTarget.files];
    if (!chosen.length) return;
    running.current?.abort();
    const stopped = new AbortController();
    running.current = stopped;
    const round = state.round + 1;
    const show = (next) => stopped.signal.aborted || setState({ round, ...next });
    show({ progress: "Reading files" });
    try {
      const extensions = new Map(formats.map(({ extension, name }) => [extension, name]));
      const { files, manifest } = await readFiles(chosen, extensions);
      if (manifest) {
        show({ manifest });
        return;
      }
      const versions = versionsIn(files, extensions);
      if (versions.length > VERSIONS_MAX) {
        throw new Error(`These are ${versions.length} versions; at most ${VERSIONS_MAX} are uploaded at once`);
      }
      const upload = new Uploading();
      const steps =
        await upload.plan(versions, { signal: stopped.signal, report: (progress) => show({ progress }) });
      show({ steps, upload });
    } catch (error) {
      show({ error });
    }
  };
  const cancel = () => {
    running.current.abort();
    setState({ round: state.round });
  };
  const { progress, steps, upload, manifest, error, round } = state;
  return html`
    <p>Schemas in files that are named after their subjects, such as <code>orders-value.avsc</code>, a folder of such
      files, or an archive or folder from the page <em>Download</em>, <code>registrar snapshot export</code> or a
      zip of it. Versions get new ids; soft-deleted ones are left out.</p>
    <form class="actions" key=${round}>
      <label>Files or an archive <input type="file" multiple onChange=${choose} /></label>
      <label>A folder <input type="file" webkitdirectory onChange=${choose} /></label>
    </form>
    ${progress !== undefined && html`<${Planning} text=${progress} onCancel=${cancel} />`}
    ${error && (error.kind ? html`<${Failure} error=${error} />`
      : html`<${Notice} kind="error" title="These files cannot be uploaded"><p>${plain(error.message)}.</p><//>`)}
    ${manifest && html`<${Notice} kind="warning" title="This folder has a manifest">
      <p>What ${MANIFEST} says of references, metadata and configs is read by the command line only: <code>registrar
        apply</code> or <code>registrar upload</code>.</p><//>`}
    ${steps?.length === 0 && html`<${Notice} kind="empty" title="No schemas in these files" />`}
    ${steps?.length > 0 &&
      html`<${Plan} key=${round} steps=${steps} perform=${(step) => upload.perform(step)} />`}`;
}

async function readFiles(chosen, extensions) {
  const wants = (path) => isRead(path, extensions) || path.endsWith(MANIFEST);
  const files = new Map();
  let left = BYTES_MAX;
  for (const file of chosen) {
    const path = file.webkitRelativePath || file.name;
    if (file.name.endsWith(".zip")) {
      if (file.size > BYTES_MAX) throw new Error(`${file.name} is too large`);
      for (const [inner, text] of await unzipped(file, left, wants)) files.set(`${path}/${inner}`, text);
    } else if (wants(path)) {
      left -= file.size;
      if (left < 0) throw new Error("These files are too large together");
      files.set(path, await file.text());
    }
  }
  return { files, manifest: [...files.keys()].some((path) => path.endsWith(MANIFEST)) };
}
