// The rule about names finds those that are shown as they are; run by test_schema_modules.py.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Linter } from "eslint";
import names from "./names.mjs";

const config = {
  languageOptions: { ecmaVersion: 2024, sourceType: "module" },
  plugins: { registrar: { rules: { names } } },
  rules: { "registrar/names": "error" },
};
const faults = (code) => new Linter().verify(code, config).length;

test("a name that is shown as it is, is found", () => {
  for (const code of [
    "html`<p>${subject}</p>`", "html`<p>By ${event.principal}</p>`", "html`<b title=${alias}>alias</b>`",
    "html`<${Dialog} title=${`Delete ${subject}`} />`", "html`<i>${known ? alias : null}</i>`",
    "html`<span class=\"name\">${each}</span>`", "document.title = `${subject} version 3`",
    "html`<option>${topic ?? \"\"}</option>`",
    "html`<p>${error.message}</p>`", "html`<em>${fix}</em>`",
  ]) assert.notEqual(faults(code), 0, code);
});

test("keys, addresses, properties and names that are made visible pass", () => {
  for (const code of [
    "html`<li key=${`version of ${subject}`}>x</li>`", "html`<a href=${href`/subjects/${subject}`}>x</a>`",
    "html`<${Name} text=${subject} />`", "html`<b title=${plain(alias)}>x</b>`", "`${plain(subject)} version 3`",
    "path`/subjects/${subject}/versions`", "`:${context}:`", "html`<input value=${subject} />`", "new Error(`${topic} has no schema`)",
  ]) assert.equal(faults(code), 0, code);
});
