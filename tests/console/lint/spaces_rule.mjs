// The rule about spaces finds words that run together; run by test_schema_modules.py.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Linter } from "eslint";
import spaces from "./spaces.mjs";

const config = {
  languageOptions: { ecmaVersion: 2024, sourceType: "module" },
  plugins: { registrar: { rules: { spaces } } },
  rules: { "registrar/spaces": "error" },
};
const faults = (code) => new Linter().verify(code, config).length;

test("a line break between a text and an element is found", () => {
  for (const code of [
    "html`<p>The primary is\n  <strong>x</strong></p>`", "html`<p>See <em>Upload</em>\n  and read</p>`",
    "html`<p>By\n  <${Name} text=${who} /></p>`",
  ]) assert.notEqual(faults(code), 0, code);
});

test("spaces that are kept, and line breaks between blocks, pass", () => {
  for (const code of [
    "html`<p>The primary is${\" \"}\n  <strong>x</strong></p>`", "html`<p>a\n  b</p>`",
    "html`<p>See <em>Upload</em>${\" \"}\n  and read</p>`", "html`<p>a</p>\n<p>b</p>`",
    "html`<label>a\n  <input /></label>`", "html`<${Button}>a<//>\n  <span>b</span>`",
  ]) assert.equal(faults(code), 0, code);
});
