// Two texts next to each other or, if there is no room, one with what changed in it.
import { html, useEffect, useRef } from "../vendor.js";
import { baseExtensions, codemirror, editorRoot } from "../components/code.js";

const NARROW_PX = 760;
const COLLAPSED = { margin: 3, minSize: 6 };
// Beyond this much work, what differs is shown more coarsely.
const DIFF = { scanLimit: 500, timeout: 300 };

/**
 * old, fresh: texts; types: of each; labels: what a screen reader says of them; whole: true to show unchanged lines,
 * too.
 */
export function Merge({ old, fresh, types, labels, whole }) {
  const element = useRef();
  useEffect(() => {
    let view;
    let folds;
    let gone = false;
    codemirror().then((modules) => {
      if (gone) return;
      const root = editorRoot(element.current);
      const made = element.current.clientWidth < NARROW_PX ? unified : sideBySide;
      view = made(modules, root, { old, fresh, types, labels, collapseUnchanged: whole ? undefined : COLLAPSED });
      folds = foldsByKey(root);
    });
    return () => {
      gone = true;
      folds?.disconnect();
      view?.destroy();
    };
  }, [old, fresh, types.join(" "), whole]);
  return html`<div class="code merge" ref=${element}></div>`;
}

function sideBySide(modules, root, { old, fresh, types, labels, collapseUnchanged }) {
  const side = (doc, at) => ({ doc, extensions: readOnly(modules, types[at], labels[at]) });
  return new modules.merge.MergeView({
    a: side(old, 0), b: side(fresh, 1), parent: root, root, collapseUnchanged, diffConfig: DIFF, gutter: true,
  });
}

function unified(modules, root, { old, fresh, types, labels, collapseUnchanged }) {
  const shown =
    modules.merge.unifiedMergeView({ original: old, mergeControls: false, collapseUnchanged, diffConfig: DIFF });
  return new modules.view.EditorView({
    doc: fresh, parent: root, root,
      extensions: [...readOnly(modules, types[1], `${labels[1]}, with what differs from ${labels[0]}`), shown],
  });
}

function readOnly(modules, type, label) {
  const { state, view } = modules;
  return [
    baseExtensions(modules, type),
    state.EditorState.readOnly.of(true),
    state.EditorState.phrases.of({ "$ unchanged lines": "Show $ unchanged lines" }),
    view.EditorView.contentAttributes.of({ "aria-label": label }),
  ];
}

const FOLD = ".cm-collapsedLines";

/** Makes buttons of the places where lines are folded: CodeMirror draws them for the mouse, and again at any time. */
function foldsByKey(root) {
  const mark = () => {
    for (const each of root.querySelectorAll(`${FOLD}:not([role])`)) {
      each.setAttribute("role", "button");
      each.tabIndex = 0;
    }
  };
  root.addEventListener("keydown", (event) => {
    const fold = event.target.closest(FOLD);
    if (!fold || !["Enter", " "].includes(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    fold.click();
  }, true);
  const observer = new MutationObserver(mark);
  observer.observe(root, { childList: true, subtree: true });
  mark();
  return observer;
}
