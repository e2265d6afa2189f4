// Becomes static/vendor-editor.js: CodeMirror, which only views with schema texts import.
export * as autocomplete from "@codemirror/autocomplete";
export * as commands from "@codemirror/commands";
export * as langJson from "@codemirror/lang-json";
export * as language from "@codemirror/language";
export * as lint from "@codemirror/lint";
export * as merge from "@codemirror/merge";
export * as search from "@codemirror/search";
export * as state from "@codemirror/state";
export * as view from "@codemirror/view";
export * as highlight from "@lezer/highlight";
export { protobuf } from "@codemirror/legacy-modes/mode/protobuf";
