// The banner over all pages while one looks at the past: which moment it is, and if the page shows that moment.
import { html, useEffect, useRef } from "../vendor.js";
import { get } from "../api.js";
import { Time } from "../components/time.js";
import { navigate, to } from "../router.js";
import { useLoaded } from "../schema/loading.js";
import { lookAt, useMoment } from "./moment.js";

const SUBJECT = /^\/subjects\/[^/]+(?:\/versions\/[^/]+)?$/;

/** path and query of the page; present: true if it shows what is there now. Subjects are opened as of the moment. */
export function MomentBanner({ path, query, present }) {
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
  const other = isSubject && query.at && query.at !== at;
  return html`
    <aside class="moment" aria-label="The registry as of a moment">
      <strong>As of offset ${at}<${When} key=${at} at=${at} />.</strong>${" "}
      <span>${present ? "This page shows the present." : other ? `This subject is shown as of offset ${query.at}.`
        : "Nothing can be changed here."}</span>
      <button class="small" onClick=${() => {
        lookAt(null);
        if (isSubject && query.at) navigate(to(path, { ...query, at: "" }), { replace: true });
      }}>Back to now</button>
    </aside>`;
}

/** The time of the record at an offset, where the registry still has it. */
function When({ at }) {
  const { value } = useLoaded((signal) =>
    get("/changes", { query: { after: Number(at) - 1, limit: 1 }, signal }), [at]);
  const [event] = value?.events ?? [];
  return event && String(event.offset) === at ? html`, <${Time} ms=${event.time} />` : null;
}
