// The frame around every view: navigation, theme, keyboard help, and errors that nobody expected.
import { html, useEffect, useErrorBoundary, useRef, useState } from "./vendor.js";
import { Icon } from "./components/icon.js";
import { KeyboardHelp } from "./components/keyboard-help.js";
import { Notice } from "./components/notice.js";
import { useKeys } from "./keys.js";
import { plain } from "./names.js";
import { ROUTES, START } from "./routes.js";
import { keep, kept, navigate, useLocation } from "./router.js";
import { MomentBanner } from "./moment/banner.js";
import { useMoment } from "./moment/moment.js";
import { NotThen } from "./moment/not-then.js";
import { Live } from "./live/live.js";
import { Palette } from "./palette/palette.js";
import { User } from "./session/sign-in.js";

const REST_MS = 100; // after which a scroll position is kept for the way back
const [RETURN_EVERY_MS, RETURN_WITHIN_MS] = [50, 10_000]; // to it, while the page is still loading
const NAVIGATION = ROUTES.filter((route) => route.nav);

export function Shell() {
  const { route, params, query, path } = useLocation(ROUTES, START);
  const [help, setHelp] = useState(false);
  const main = useRef();
  const at = useMoment();
  const [presentOf, setPresentOf] = useState(null); // the part of the console that is shown as of now
  const [, part] = path.split("/");
  const onlyNow = at !== null && route !== undefined && route.then !== true; // the page knows no other moment
  const present = onlyNow && presentOf === part;
  useEffect(() => setPresentOf((shown) => (shown === part ? shown : null)), [part, at]);
  useKeys("Everywhere", [
    { keys: "?", does: "Show or hide this help", run: () => setHelp((shown) => !shown) },
    ...NAVIGATION.filter((each) => each.key).map((each) => ({
      keys: `g ${each.key}`, does: `Go to ${each.nav}`, run: () => navigate(each.path),
    })),
  ]);
  useEffect(() => {
    document.title = `${titleOf(route, params)} · Registrar`;
  }, [route, params]);
  const [announced, setAnnounced] = useState("");
  const begun = useRef(true); // the page was loaded, which the browser announces itself
  const rest = useRef(null);
  const returning = useRef(null); // what leads back to a place that is not there yet
  const scrolled = () => {
    clearTimeout(rest.current);
    if (returning.current) return;
    rest.current = setTimeout(() => main.current && keep("top", main.current.scrollTop), REST_MS);
  };
  const stay = () => {
    clearInterval(returning.current);
    returning.current = null;
  };
  const arrived = () => {
    clearTimeout(rest.current);
    stay();
    const element = main.current;
    const top = kept("top") ?? 0;
    element.scrollTop = top;
    // What the page shows may still be loading: until it is as long, or the user goes somewhere, this is tried again.
    if (element.scrollTop < top - 1) {
      const until = performance.now() + RETURN_WITHIN_MS;
      returning.current = setInterval(() => {
        element.scrollTop = top;
        if (element.scrollTop >= top - 1 || performance.now() > until) stay();
      }, RETURN_EVERY_MS);
    }
    if (!begun.current) {
      setAnnounced(titleOf(route, params));
      // What has the focus within the page keeps it, such as a field that the page itself has focused.
      const heading = element.querySelector("h1");
      if (heading && !element.contains(document.activeElement)) {
        heading.tabIndex = -1;
        heading.focus({ preventScroll: true });
      }
    }
    begun.current = false;
  };
  const pagesBar = useRef();
  useEffect(() => scrollTo(pagesBar.current, pagesBar.current.querySelector("[aria-current]")), [path]);
  const shownPath = useRef(path);
  useEffect(() => {
    if (shownPath.current !== path) arrived();
    shownPath.current = path;
  }, [path]);
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current.focus(); }}>Skip to
      content</a>
    <header class="shell">
      <a class="brand" href="#/home">Registrar</a>
      <nav aria-label="Pages" ref=${pagesBar}>
        ${NAVIGATION.map((each) => html`
          <a key=${each.path} href=${`#${each.path}`} aria-current=${path.startsWith(each.path) ? "page" : null}>
            <${Icon} name=${each.nav.toLowerCase()} />${each.nav}</a>
        `)}
      </nav>
      <span class="spread"></span>
      <${Palette} />
      <${Live} />
      <${User} />
      <${ThemeSwitch} />
      <button class="plain" title="Keyboard help (?)" aria-label="Keyboard help"
        onClick=${() => setHelp(true)}>?</button>
    </header>
    <${MomentBanner} path=${path} query=${query} present=${present} />
    <div class="unseen" aria-live="polite">${announced}</div>
    <main id="main" tabindex="-1" ref=${main} onScroll=${scrolled} onWheel=${stay} onPointerDown=${stay}
      onKeyDown=${stay}>
      ${onlyNow && !present
        ? html`<${NotThen} key=${path} title=${titleOf(route, params)} at=${at} what=${route.then}
          onShow=${() => setPresentOf(part)} />`
        : route
        ? html`<${View} key=${route.path} route=${route} params=${params} query=${query} onShown=${arrived} />`
        : html`<${Notice} kind="error" title="Page not found">
            <p>There is no page at ${plain(path)}. <a href="#/home">Go to Home.</a></p>
          <//>`}
    </main>
    ${help && html`<${KeyboardHelp} onClose=${() => setHelp(false)} />`}
  `;
}

/** Scroll a bar sideways, so that one of its parts is seen where the bar is too short for all. */
function scrollTo(bar, part) {
  if (part) bar.scrollLeft = part.offsetLeft - bar.offsetLeft - (bar.clientWidth - part.offsetWidth) / 2;
}

/** route: undefined for an address that does not exist. */
function titleOf(route, params) {
  const title = route?.title ?? "Page not found";
  return typeof title === "function" ? title(params) : title;
}

/** Loads a view when it is opened first. */
function View({ route, params, query, onShown }) {
  const [loaded, setLoaded] = useState({});
  const [error, reset] = useErrorBoundary((thrown) => console.error(thrown));
  const load = () => {
    setLoaded({});
    route.view().then(
      (module) => setLoaded({ component: module.default }),
      () => setLoaded({ failed: true }),
    );
  };
  useEffect(load, [route]);
  useEffect(() => { if (loaded.component) onShown(); }, [loaded.component]);
  if (error) {
    return html`<${Notice} kind="error" title="This page failed" action="Reload" onAction=${reset}>
      <p>${String(error.message ?? error)}</p>
    <//>`;
  }
  if (loaded.failed) {
    return html`<${Notice} kind="error" title="The page could not be loaded" action="Reload"
      onAction=${() => location.reload()}>
      <p>The registry is unreachable, or was upgraded. </p>
    <//>`;
  }
  return loaded.component
    ? html`<${loaded.component} params=${params} query=${query} />` : html`<p class="quiet" role="status">Loading…</p>`;
}

function ThemeSwitch() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme ?? "auto");
  const choose = (chosen) => {
    setTheme(chosen);
    if (chosen === "auto") {
      localStorage.removeItem("registrar.theme");
      delete document.documentElement.dataset.theme;
    } else {
      localStorage.setItem("registrar.theme", chosen);
      document.documentElement.dataset.theme = chosen;
    }
  };
  return html`
    <label class="theme"><span class="unseen">Theme</span>
      <select value=${theme} onChange=${(event) => choose(event.currentTarget.value)}>
        <option value="auto">Auto</option><option value="light">Light</option><option value="dark">Dark</option>
      </select>
    </label>`;
}
