// Two texts next to each other or, if there is no room, one with what changed in it.
import { html, useEffect, useRef } from "../vendor.js";
import { baseExtensions, codemirror, editorRoot } from "../components/code.js";

const NARROW_PX = 760;
const COLLAPSED = { margin: 3, minSize: 6 };
// Beyond this much work, what differs is shown more coarsely.
const DIFF = { scanLimit: 500, timeout: 300 };

/** old, fresh: texts; type: of both. label: what a screen reader says of them. */
export function Merge({ old, fresh, type, labels }) {
  const element = useRef();
  useEffect(() => {
    let view;
    let gone = false;
    codemirror().then((modules) => {
      if (gone) return;
      const root = editorRoot(element.current);
      const made = element.current.clientWidth < NARROW_PX ? unified : sideBySide;
      view = made(modules, root, { old, fresh, type, labels });
    });
    return () => {
      gone = true;
      view?.destroy();
    };
  }, [old, fresh, type]);
  return html`<div class="code merge" ref=${element}></div>`;
}

function sideBySide(modules, root, { old, fresh, type, labels }) {
  const side = (doc, label) => ({ doc, extensions: readOnly(modules, type, label) });
  return new modules.merge.MergeView({
    a: side(old, labels[0]), b: side(fresh, labels[1]), parent: root, root, collapseUnchanged: COLLAPSED,
      diffConfig: DIFF, gutter: true,
  });
}

function unified(modules, root, { old, fresh, type, labels }) {
  const shown =
    modules.merge.unifiedMergeView(
      { original: old, mergeControls: false, collapseUnchanged: COLLAPSED, diffConfig: DIFF });
  return new modules.view.EditorView({
    doc: fresh, parent: root, root,
      extensions: [...readOnly(modules, type, `${labels[1]}, with what differs from ${labels[0]}`), shown],
  });
}

function readOnly(modules, type, label) {
  const { state, view } = modules;
  return [
    baseExtensions(modules, type),
    state.EditorState.readOnly.of(true),
    view.EditorView.contentAttributes.of({ "aria-label": label }),
  ];
}
