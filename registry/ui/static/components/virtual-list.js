// A grid of any number of rows of one height; only the visible ones are in the page.
import { html, useEffect, useId, useRef, useState } from "../vendor.js";
import { keep, kept } from "../router.js";

const OVERSCAN = 8;
const REST_MS = 100; // after which a scroll position is kept for the way back

/**
 * count: number of rows. row(index): its cells, as elements with role="gridcell". head: the header row's cells.
 * current: index of the chosen row, or -1; onCurrent(index) and onOpen(index) are called by pointer.
 * onVisible(first, end) reports which rows are shown. rowHeight in pixels. When the order changes, the first row is
 * shown.
 */
export function VirtualList(
  { label, count, rowHeight, row, head, current = -1, onCurrent, onOpen, onVisible, rowKey, order }) {
  const scroller = useRef();
  const id = useId();
  const [range, setRange] = useState([0, 40]);
  const back = useRef(kept("row") ?? null); // the row to which the way back leads, once there are as many
  const timer = useRef(null);
  const opening = useRef(true);

  const measure = () => {
    if (!scroller.current) return; // an event that was on its way when the list went
    const { scrollTop, clientHeight } = scroller.current;
    const first = Math.max(0, Math.floor(scrollTop / rowHeight) - OVERSCAN);
    const end = Math.ceil((scrollTop + clientHeight) / rowHeight) + OVERSCAN;
    setRange((before) => (before[0] === first && before[1] === end ? before : [first, end]));
  };
  const scrolled = () => {
    measure();
    clearTimeout(timer.current);
    const keepRow = () => scroller.current && keep("row", scroller.current.scrollTop / rowHeight);
    if (back.current === null) timer.current = setTimeout(keepRow, REST_MS);
  };
  useEffect(() => () => clearTimeout(timer.current), []);
  useEffect(() => {
    if (!opening.current) [scroller.current.scrollTop, back.current] = [0, null];
    opening.current = false;
  }, [order]);
  useEffect(() => {
    if (back.current === null || back.current >= count) return;
    scroller.current.scrollTop = back.current * rowHeight;
    back.current = null;
  }, [count, rowHeight]);
  useEffect(measure, [rowHeight, count, order]);
  useEffect(() => {
    const observer = new ResizeObserver(measure);
    observer.observe(scroller.current);
    return () => observer.disconnect();
  }, [rowHeight]);

  const begin = Math.min(range[0], Math.max(0, count - 1));
  const end = Math.min(range[1], count);
  useEffect(() => { onVisible?.(begin, end); });

  useEffect(() => {
    if (current < 0) return;
    // The header is sticky and covers the first row's height.
    const element = scroller.current;
    const [top, bottom] = [current * rowHeight, (current + 2) * rowHeight];
    if (top < element.scrollTop) element.scrollTop = top;
    else if (bottom > element.scrollTop + element.clientHeight) element.scrollTop = bottom - element.clientHeight;
  }, [current, rowHeight]);

  const shown = [];
  for (let index = begin; index < end; index += 1) shown.push(index);
  return html`
    <div class="grid" role="grid" tabindex="0" aria-label=${label} aria-rowcount=${count + 1} ref=${scroller}
      onScroll=${scrolled}
      aria-activedescendant=${current >= begin && current < end ? `${id}-${current}` : null}>
      <div class="grid-head" role="row" aria-rowindex="1" style=${{ height: `${rowHeight}px` }}>${head}</div>
      <div class="grid-body" role="rowgroup" style=${{ height: `${count * rowHeight}px` }}>
        ${shown.map((index) => html`
          <div key=${rowKey ? rowKey(index) : index} role="row" id=${`${id}-${index}`} aria-rowindex=${index + 2}
            aria-selected=${index === current}
            class=${index === current ? "grid-row current" : "grid-row"}
              style=${{ height: `${rowHeight}px`, transform: `translateY(${index * rowHeight}px)` }}
            onClick=${() => onCurrent?.(index)} onDblClick=${() => onOpen?.(index)}>${row(index)}</div>`)}
      </div>
    </div>`;
}
