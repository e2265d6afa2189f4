// The form to sign in, shown over any page, and the user's place in the frame.
import { html, useEffect, useRef, useState } from "../vendor.js";
import { Dialog } from "../components/dialog.js";
import { askToSignIn, canSignOut, dismiss, signInBasic, signInOidc, signOut, useSession } from "./session.js";

/** The user's name with a button to sign out, or a button to sign in; nothing where nobody needs to. */
export function User() {
  const { me, asking } = useSession();
  if (!me) return null;
  const offered = me.signIn.basic || me.signIn.oidc;
  return html`
    ${me.principal !== null &&
      html`<span class="user" title=${`Signed in by ${METHODS[me.method]}`}><span class="name">${me.principal}</span>
      ${me.readOnly && html` <span class="badge">read only</span>`}</span>`}
    ${canSignOut() && html`<button class="plain" onClick=${signOut}>Sign out</button>`}
    ${me.principal === null && me.signIn.required && offered && html`<button onClick=${askToSignIn}>Sign in</button>`}
    ${asking && html`<${SignIn} />`}`;
}

const METHODS = { basic: "a password", bearer: "a token", certificate: "the browser's certificate" };

function SignIn() {
  const { me, error, ended } = useSession();
  const [keep, setKeep] = useState(false);
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
    <${Dialog} title="Sign in" onClose=${dismiss}>
      ${ended && html`<p>Your session has ended. Sign in to continue.</p>`}
      <p role="alert" class="bad">${failure}</p>
      ${oidc &&
        html`<button class="primary" disabled=${busy} onClick=${() => attempt(() => signInOidc(keep))}>Sign in
          at ${new URL(oidc.issuer).host}</button>`}
      ${oidc && basic && html`<p class="quiet">or with a password</p>`}
      ${basic &&
        html`<${Password} busy=${busy}
          onSubmit=${(name, password) => attempt(() => signInBasic(name, password, keep))} />`}
      ${(basic || oidc) && html`
        <label class="choice">
          <input type="checkbox" checked=${keep} onChange=${(event) => setKeep(event.currentTarget.checked)} />
          Stay signed in when this tab is reloaded</label>`}
      ${!basic && !oidc && html`<p>This console cannot sign you in: ${certificate
        ? "choose a certificate when your browser asks for one, on the registry's https address."
        : "the registry accepts only tokens, and no issuer is configured for the console."}</p>`}
    <//>`;
}

function Password({ busy, onSubmit }) {
  const [name, password] = [useRef(), useRef()];
  useEffect(() => name.current.focus(), []);
  const submit = (event) => {
    event.preventDefault();
    onSubmit(name.current.value, password.current.value);
  };
  return html`
    <form class="password" onSubmit=${submit}>
      <label>User name<input ref=${name} name="username" autocomplete="username" required pattern="[^:]+"
        title="A name without a colon" /></label>
      <label>Password<input ref=${password} name="password" type="password" autocomplete="current-password" /></label>
      <button class="primary" disabled=${busy}>Sign in</button>
    </form>`;
}
