// The entry: shows the shell in the page.
import "./theme.js";
import { html, render } from "./vendor.js";
import { keepFocus } from "./focus.js";
import { Shell } from "./shell.js";
import { follow } from "./live/feed.js";
import { begin } from "./session/session.js";

begin();
follow();
keepFocus();
render(html`<${Shell} />`, document.getElementById("app"));
