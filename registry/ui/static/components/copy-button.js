// Copies a text and says so for a moment.
import { html, useEffect, useState } from "../vendor.js";

/** text: what is copied; label: what a screen reader says, such as "Copy the id". */
export function CopyButton({ text, label }) {
  const [state, setState] = useState("Copy");
  useEffect(() => {
    if (state === "Copy") return undefined;
    const timer = setTimeout(() => setState("Copy"), 1500);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = () => copied(text).then(() => setState("Copied"), () => setState("Not copied"));
  return html`<button class="plain small" aria-label=${label} onClick=${copy}>
    <span aria-live="polite">${state}</span></button>`;
}

async function copied(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Pages on plain HTTP have no clipboard but this one.
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (!done) throw new Error("not copied");
  return undefined;
}
