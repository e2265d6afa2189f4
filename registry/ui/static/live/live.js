// A word in the frame that says if the page shows changes as they happen.
import { html } from "../vendor.js";
import { useConnection } from "./feed.js";

const WORDS = {
  live: ["good", "live", "This page shows live changes"],
  polling: ["plain", "not live", "This registry has no change feed: lists are reloaded when you return to them"],
  off: ["plain", "not live", "Sign in to see live changes"],
  connecting: ["warn", "connecting", "Changes resume when the registry responds; none is lost"],
};

export function Live() {
  const [tone, word, meaning] = WORDS[useConnection()];
  return html`<span class=${`badge ${tone}`} title=${meaning}>${word}</span>`;
}
