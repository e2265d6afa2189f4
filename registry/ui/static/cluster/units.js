// Numbers, sizes and times as people read them.

const NUMBERS = new Intl.NumberFormat("en");
const SIZES = ["bytes", "KiB", "MiB", "GiB", "TiB"];
/** @type {[number, string][]} */
const STEPS = [[86_400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

export function count(number) {
  return NUMBERS.format(number);
}

/** A part of a whole, from 0 to 1, in per cent with two digits. */
export function share(part) {
  const percent = part * 100;
  if (percent > 0 && percent < 0.01) return "< 0.01 %";
  return `${Number(percent.toPrecision(2))} %`;
}

export function bytes(number) {
  let [value, unit] = [number, 0];
  while (value >= 1024 && unit < SIZES.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${SIZES[unit]}`;
}

/** How long a moment (ms since the epoch) is past, in its largest unit. */
export function ago(ms, now = Date.now()) {
  return duration((now - ms) / 1000);
}

export function duration(seconds) {
  const [step, unit] = STEPS.find(([each]) => seconds >= each) ?? STEPS.at(-1);
  return `${Math.max(0, Math.floor(seconds / step))} ${unit}`;
}

/** A moment in the user's time zone, without the date if it is of today. */
export function moment(ms) {
  const [date, today] = [new Date(ms), new Date()];
  return date.toDateString() === today.toDateString() ? date.toLocaleTimeString() : date.toLocaleString();
}
