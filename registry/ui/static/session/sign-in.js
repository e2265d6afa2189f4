// The form to sign in, shown over any page, and the user's place in the frame.
import { html, useRef, useState } from "../vendor.js";
import { Dialog } from "../components/dialog.js";
import { Name } from "../components/name.js";
import { Failure } from "../components/notice.js";
import { countOf, discardAll } from "../editor/drafts.js";
import {
  askToSignIn, canSignOut, dismiss, onForget, signInBasic, signInOidc, signOut, useSession,
} from "./session.js";

onForget((principal) => discardAll(localStorage, principal));

/** The user's name with a button to sign out, or a button to sign in; nothing where nobody needs to. */
export function User() {
  const { me, asking } = useSession();
  if (!me) return null;
  const offered = me.signIn.basic || me.signIn.oidc;
  return html`
    ${me.principal !== null &&
      html`<span class="user" title=${`Signed in by ${METHODS[me.method]}`}><${Name} plain text=${me.principal} />
      ${me.readOnly && html` <span class="badge">read only</span>`}</span>`}
    ${canSignOut() && html`<${SignOut} principal=${me.principal} />`}
    ${me.principal === null && me.signIn.required && offered && html`<button onClick=${askToSignIn}>Sign in</button>`}
    ${asking && html`<${SignIn} />`}`;
}

/** Drafts stay for the user or are discarded, as they choose; a failure to sign out is said. */
function SignOut({ principal }) {
  const [asking, setAsking] = useState(false);
  const [{ busy, error }, setState] = useState({});
  const drafts = asking ? countOf(localStorage, principal) : 0;
  const run = async (forget) => {
    setState({ busy: true });
    try {
      await signOut(forget);
    } catch (failure) {
      setState({ error: failure });
      setAsking(true);
    }
  };
  const start = () => (countOf(localStorage, principal) ? setAsking(true) : run(false));
  return html`
    <button class="plain" disabled=${busy} onClick=${start}>Sign out</button>
    ${asking && html`
      <${Dialog} title="Sign out" onClose=${() => { setAsking(false); setState({}); }}
        footer=${drafts > 0
          ? html`<button class="danger" disabled=${busy} onClick=${() => run(true)}>Discard them and sign out</button>
            <button class="primary" disabled=${busy} onClick=${() => run(false)}>Keep them and sign out</button>`
          : html`<button class="primary" disabled=${busy} onClick=${() => run(false)}>Try again</button>`}>
        ${drafts > 0 && html`<p>You have ${drafts} ${drafts === 1 ? "draft" : "drafts"} in this browser. The console
          shows drafts only to the user who wrote them. Discard them if you share this computer: they are stored
          unencrypted.</p>`}
        ${error && html`<p>You are still signed in.</p><${Failure} error=${error} />`}
      <//>`}`;
}

const METHODS = { basic: "a password", bearer: "a token", certificate: "the browser's certificate" };

function SignIn() {
  const { me, error, ended } = useSession();
  const [failure, setFailure] = useState(error);
  const [busy, setBusy] = useState(false);
  const { basic, oidc, certificate } = me.signIn;
  const attempt = (work) => {
    setBusy(true);
    setFailure("");
    work().catch((thrown) => {
      setBusy(false);
      setFailure(thrown.message);
    });
  };
  return html`
    <${Dialog} title="Sign in" fixed footer=${html`<button onClick=${dismiss}>Continue without signing in</button>`}>
      ${ended && html`<p>Your session has ended. Sign in to continue; nothing on this page is lost.</p>`}
      <p role="alert" class="bad">${failure}</p>
      ${oidc &&
        html`<button class="primary" disabled=${busy} onClick=${() => attempt(() => signInOidc())}>Sign in
          at ${new URL(oidc.issuer).host}</button>`}
      ${oidc && basic && html`<p class="quiet">or with a password</p>`}
      ${basic &&
        html`<${Password} busy=${busy} known=${ended ? me.principal : ""}
          onSubmit=${(name, password) => attempt(() => signInBasic(name, password))} />`}
      ${!basic && !oidc && html`<p>This console cannot sign you in: ${certificate
        ? "choose a certificate when your browser asks for one, on the registry's https address."
        : "the registry accepts only tokens, and no issuer is configured for the console."}</p>`}
    <//>`;
}

/** known: the name of a user whose session has ended. */
function Password({ busy, known, onSubmit }) {
  const [name, password] = [useRef(), useRef()];
  const submit = (event) => {
    event.preventDefault();
    onSubmit(name.current.value, password.current.value);
  };
  return html`
    <form class="password" onSubmit=${submit}>
      <label>User name<input ref=${name} name="username" autocomplete="username" required pattern="[^:]+"
        title="A name without a colon" defaultValue=${known} autofocus=${!known} /></label>
      <label>Password<input ref=${password} name="password" type="password" autocomplete="current-password"
        autofocus=${Boolean(known)} /></label>
      <button class="primary" disabled=${busy}>Sign in</button>
    </form>`;
}
