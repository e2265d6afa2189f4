// A schema's text in CodeMirror. It lives in a shadow root: there CodeMirror's styles are adopted style sheets, which a
// strict content security policy allows, while style elements in the document would be refused.
import { html, useEffect, useRef } from "../vendor.js";
import { formatOf } from "../formats.js";

let loading;

/** CodeMirror's packages, loaded at the first use: (await codemirror()).view.EditorView. */
export function codemirror() {
  loading ??= import("../vendor-editor.js");
  return loading;
}

/** A shadow root within an element, to be given to EditorView or MergeView as parent and root. */
export function editorRoot(element) {
  const shadow = element.shadowRoot ?? element.attachShadow({ mode: "open" });
  shadow.replaceChildren();
  return shadow;
}

// The languages that are colored, by the names that formats give them.
const LANGUAGES = {
  json: ({ langJson }) => langJson.json(),
  protobuf: ({ language, protobuf }) => language.StreamLanguage.define(protobuf),
};

/** Extensions that every editor here has: colors by the theme's variables, and the language of a schema type. */
export function baseExtensions(modules, type) {
  const { view, language, highlight } = modules;
  const { tags } = highlight;
  const colors = language.HighlightStyle.define([
    { tag: [tags.propertyName, tags.definition(tags.variableName)], color: "var(--code-name)" },
    { tag: [tags.string, tags.special(tags.string)], color: "var(--code-text)" },
    { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--code-value)" },
    { tag: [tags.keyword, tags.typeName, tags.modifier], color: "var(--code-keyword)" },
    { tag: tags.comment, color: "var(--code-comment)", fontStyle: "italic" },
  ]);
  return [
    view.EditorView.theme({
      "&": { color: "var(--text)", backgroundColor: "var(--surface)", fontSize: "0.85rem" },
      "&.cm-focused": { outline: "2px solid var(--focus)" },
      ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
      ".cm-content": { caretColor: "var(--text)" },
      ".cm-gutters": { color: "var(--quiet)", backgroundColor: "var(--surface-2)", border: "none" },
      ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
      "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
        backgroundColor: "var(--selection)" },
      ".cm-collapsedLines": { padding: "2px 12px", color: "var(--quiet)", background: "var(--surface-2)" },
      ".cm-collapsedLines::before, .cm-collapsedLines::after": { content: '"…"' },
      ".cm-panels": { color: "var(--text)", backgroundColor: "var(--surface-2)" },
      ".cm-tooltip": { color: "var(--text)", backgroundColor: "var(--surface)", borderColor: "var(--line)" },
    }),
    language.syntaxHighlighting(colors),
    view.lineNumbers(),
    view.EditorView.lineWrapping,
    (type && LANGUAGES[formatOf(type).language]?.(modules)) || [],
  ];
}

/** A text that can be read, selected and searched, not changed. type: of a schema; empty: without colors. */
export function Code({ text, type, label }) {
  const element = useRef();
  useEffect(() => {
    let editor;
    let gone = false;
    codemirror().then((modules) => {
      if (gone) return;
      const { state, view, search, commands } = modules;
      const root = editorRoot(element.current);
      editor = new view.EditorView({
        parent: root,
        root,
        doc: text,
        extensions: [
          baseExtensions(modules, type),
          state.EditorState.readOnly.of(true),
          search.search({ top: true }),
          view.keymap.of([...search.searchKeymap, ...commands.defaultKeymap]),
          view.EditorView.contentAttributes.of({ "aria-label": label }),
        ],
      });
    });
    return () => {
      gone = true;
      editor?.destroy();
    };
  }, [text, type]);
  return html`<div class="code" ref=${element}></div>`;
}
