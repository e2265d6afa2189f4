// The rules for the console's scripts: what is likely a mistake, and what the house wants.
import js from "@eslint/js";
import globals from "globals";
import names from "./names.mjs";
import spaces from "./spaces.mjs";

export default [
  { ignores: ["**/vendor*.js", "**/node_modules/**"] },
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2024, sourceType: "module", globals: globals.browser },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "array-callback-return": "error",
      eqeqeq: "error",
      "no-await-in-loop": "off", // requests in a row are meant: each is bounded
      "no-constructor-return": "error",
      "no-console": ["error", { allow: ["error"] }],
      "no-duplicate-imports": "error",
      "no-else-return": "error",
      "no-implicit-coercion": "error",
      "no-misleading-character-class": "off", // classes of characters that cannot be seen are meant
      "no-shadow": "error",
      "no-unused-vars": ["error", { args: "after-used", ignoreRestSiblings: true, varsIgnorePattern: "^_" }],
      "no-use-before-define": ["error", { functions: false, classes: false, variables: false }],
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
      "prefer-template": "error",
    },
  },
  {
    files: ["**/ui/static/**"],
    ignores: ["**/components/name.js"],
    plugins: { registrar: { rules: { names } } },
    rules: { "registrar/names": "error" },
  },
  {
    files: ["**/ui/static/**"],
    plugins: { words: { rules: { spaces } } },
    rules: { "words/spaces": "error" },
  },
  { files: ["**/*.mjs"], languageOptions: { globals: globals.node } },
];
