// A word in the frame that says if the page shows changes as they happen.
import { html } from "../vendor.js";
import { useFeed } from "./feed.js";

const WORDS = {
  live: ["good", "live", "This page shows changes as they happen"],
  polling: ["plain", "not live", "This registry has no change feed: lists are loaded again when you come back to them"],
  off: ["plain", "not live", "Sign in to see changes as they happen"],
  connecting: ["warn", "connecting", "Changes are shown again as soon as the registry answers; none is missed"],
};

export function Live() {
  const { connection } = useFeed();
  const [tone, word, meaning] = WORDS[connection];
  return html`<span class=${`badge ${tone}`} title=${meaning}>${word}</span>`;
}
