// Small drawings in the color of the text. They say nothing that the words next to them do not say.
import { html } from "../vendor.js";

// Lines on a square of 16 by 16.
const LINES = {
  home: "M2 7.5 8 2.5l6 5M3.5 6.3v7.2h9V6.3M6.5 13.5v-4h3v4",
  subjects: "M5.5 4h8M5.5 8h8M5.5 12h8M2.5 4h.01M2.5 8h.01M2.5 12h.01",
  try: "M3 13l.7-3 7.2-7.2 2.3 2.3L6 12.3zM9.4 4.3l2.3 2.3",
  config: "M2 5h6M12 5h2M2 11h2M8 11h6M10 3v4M6 9v4",
  lookup: "M6 2.5l-1.5 11M11.5 2.5 10 13.5M2.5 6h11.5M2 10h11.5",
  usage: "M3 13.5V9M8 13.5V5M13 13.5v-11",
  bulk: "M8 2l6 3-6 3-6-3zM2.3 8.2 8 11l5.7-2.8M2.3 11.2 8 14l5.7-2.8",
  activity: "M1.5 8.5h3l2-5 3 9 2-4h3",
  cluster: "M8 5.4a1.7 1.7 0 1 0 0-3.4 1.7 1.7 0 0 0 0 3.4ZM3.7 13.4a1.7 1.7 0 1 0 0-3.4 1.7 1.7 0 0 0 0 3.4Z"
    + "M12.3 13.4a1.7 1.7 0 1 0 0-3.4 1.7 1.7 0 0 0 0 3.4ZM7.2 5.3 4.6 10.2M8.8 5.3l2.6 4.9M5.5 11.7h5",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM10.7 10.7 14 14",
  error: "M8 4.5V9M8 11.5v.01M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13Z",
  warning: "M8 6v3.5M8 11.6v.01M8 2l7 11.8H1z",
  info: "M8 7.5v4M8 4.6v.01M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13Z",
  empty: "M2 9.5 4 3h8l2 6.5V13H2zM2 9.5h3.5l1 2h3l1-2H14",
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d=${LINES[name]} /></svg>`;
}
