// CodeMirror for a draft: highlighting, search, folding of brackets, and marks in the gutter.
import { html, useEffect, useRef } from "../vendor.js";
import { baseExtensions, codemirror, editorRoot } from "../components/code.js";

/** Texts longer than this are edited without colors. */
export const HIGHLIGHTED_MAX = 500_000;

/**
 * text: shown at first, and whenever `loaded` changes; type: of the schema; onText(text) after each change.
 * marks(text, tree): returns marks to show, called when `checked` changes. control: gets `goTo(range)` and `tree()`.
 */
export function TextEditor({ text, loaded, type, label, onText, marks, checked, control }) {
  const element = useRef();
  const editor = useRef(null);
  const latest = useRef({});
  latest.current = { text, onText, marks };
  useEffect(() => {
    let gone = false;
    codemirror().then((modules) => {
      if (gone) return;
      const view =
        made(modules, element.current,
          { text: latest.current.text, type, label, onChange: (changed) => latest.current.onText(changed) });
      editor.current = { modules, view };
      control.current = controlOf(modules, view);
      show(editor.current, latest.current.marks);
    });
    return () => {
      gone = true;
      editor.current?.view.destroy();
      editor.current = null;
      control.current = null;
    };
  }, [loaded, type]);
  useEffect(() => {
    if (editor.current) show(editor.current, marks);
  }, [checked]);
  return html`<div class="code editor" ref=${element}></div>`;
}

function made(modules, element, { text, type, label, onChange }) {
  const { autocomplete, commands, language, lint, search, state, view } = modules;
  const root = editorRoot(element);
  return new view.EditorView({
    parent: root,
    root,
    doc: text,
    extensions: [
      baseExtensions(modules, text.length > HIGHLIGHTED_MAX ? "" : type),
      commands.history(),
      language.indentOnInput(),
      language.bracketMatching(),
      autocomplete.closeBrackets(),
      view.EditorView.theme({ ".cm-content, .cm-gutter": { minHeight: "20rem" } }),
      lint.lintGutter(),
      search.search({ top: true }),
      state.EditorState.tabSize.of(2),
      // Tab leaves the editor, so that the keyboard is not caught in it.
      view.keymap.of(
        [...autocomplete.closeBracketsKeymap, ...commands.defaultKeymap, ...commands.historyKeymap,
          ...search.searchKeymap, ...lint.lintKeymap]),
      view.EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false" }),
      view.EditorView.domEventHandlers({ beforeinput: (event, editor) => replacing(view.EditorView, event, editor) }),
      view.EditorView.updateListener.of((update) => update.docChanged && onChange(update.state.doc.toString())),
    ],
  });
}

/**
 * Replaces a selection by what is typed. Left to itself, the browser joins the lines with a style attribute, which the
 * content security policy refuses and reports.
 */
function replacing({ inputHandler }, event, editor) {
  const [from, to] = selected(editor);
  if (event.inputType !== "insertText" || !event.data || event.isComposing || from === to) return false;
  const text = editor.state.toText(event.data);
  const changes = { from, to, insert: text };
  const insert = () =>
    editor.state.update(
      { changes, selection: { anchor: from + text.length }, userEvent: "input.type", scrollIntoView: true });
  const handled = editor.state.facet(inputHandler).some((handle) => handle(editor, from, to, event.data, insert));
  if (!handled) editor.dispatch(insert());
  event.preventDefault();
  return true;
}

/** Returns the ends of the selection, which the editor may not have noticed yet. */
function selected(editor) {
  const found = editor.root.getSelection?.(); // only in Chromium, the only one to report
  const ends = found && [[found.anchorNode, found.anchorOffset], [found.focusNode, found.focusOffset]];
  if (!ends?.every(([node]) => editor.contentDOM.contains(node))) {
    return [editor.state.selection.main.from, editor.state.selection.main.to];
  }
  return ends.map(([node, offset]) => editor.posAtDOM(node, offset)).sort((one, other) => one - other);
}

function controlOf(modules, view) {
  return {
    tree: () => modules.language.syntaxTree(view.state),
    goTo({ from, to }) {
      const end = view.state.doc.length;
      view.dispatch({ selection: { anchor: Math.min(from, end), head: Math.min(to, end) }, scrollIntoView: true });
      view.focus();
    },
    replace(text) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    },
  };
}

function show({ modules, view }, marks) {
  const text = view.state.doc.toString();
  const tree = text.length > HIGHLIGHTED_MAX ? null : modules.language.ensureSyntaxTree(view.state, text.length, 200);
  const found = marks(text, tree)
    .map((mark) =>
      ({ ...mark, from: Math.min(mark.from, text.length), to: Math.min(Math.max(mark.to, mark.from), text.length) }));
  view.dispatch(modules.lint.setDiagnostics(view.state, found));
}
