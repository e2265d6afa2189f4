// The banner over all pages while one looks at the past: which moment it is, and what of this page is of that moment.
import { html, useEffect, useRef } from "../vendor.js";
import { navigate, to } from "../router.js";
import { getAt } from "../schema/moment.js";
import { useLoaded } from "../schema/loading.js";
import { path as encoded } from "../api.js";
import { lookAt, useMoment } from "./moment.js";

const SUBJECT = /^\/subjects\/[^/]+(?:\/versions\/[^/]+)?$/;

/** path and query of the page that is shown. Subjects are opened as of the moment. */
export function MomentBanner({ path, query }) {
  const at = useMoment();
  const before = useRef({});
  const isSubject = SUBJECT.test(path);
  useEffect(() => {
    const last = before.current;
    before.current = { path, at: query.at, moment: at };
    if (at === null || !isSubject || query.at) return;
    // "Back to now" of the subject's own banner leaves the moment.
    if (last.path === path && last.at && last.moment === at) lookAt(null);
    else navigate(to(path, { ...query, at }), { replace: true });
  }, [path, query.at, at]);
  if (at === null) return null;
  return html`
    <aside class="moment" aria-label="The registry as of a moment">
      <strong>As of offset ${at}.</strong>${" "}
      <span>${isSubject ? "Nothing can be changed here." : path === "/config"
        ? html`<${Settings} key=${`${at} ${query.scope}`} at=${at} scope=${query.scope ?? ""} />`
        : "This page shows the present; subjects that you open show that moment."}</span>
      <button class="small" onClick=${() => {
        lookAt(null);
        if (isSubject && query.at) navigate(to(path, { ...query, at: "" }), { replace: true });
      }}>Back to now</button>
    </aside>`;
}

function Settings({ at, scope }) {
  const found = useLoaded((signal) => {
    const where = scope === "" ? "" : encoded`/${scope}`;
    return Promise.all(["config", "mode"].map((what) =>
      getAt(at, `/${what}${where}`, { defaultToGlobal: true }, signal)));
  }, [at, scope]);
  if (found.error) return html`The registry does not say what config and mode were then: ${found.error.message}`;
  if (!found.value) return html`Loading what was then…`;
  const [{ compatibilityLevel }, { mode }] = found.value;
  return html`Then: level <strong>${compatibilityLevel}</strong>, mode <strong>${mode}</strong>. Below is the present.`;
}
