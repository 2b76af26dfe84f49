// Numbers, times and hostile text as people read them.

import { el } from "./dom.js";

const WHOLE = new Intl.NumberFormat("en");
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
export const NONE = "none";

const absent = (value) => value === null || value === undefined;

/** A whole number, or one that came as a string because it may be beyond 2^53. */
export function count(value) {
  if (absent(value)) return NOT_KNOWN;
  return WHOLE.format(typeof value === "string" ? BigInt(value) : Math.round(value));
}

export const NOT_KNOWN = "not known";

export function bytes(value) {
  if (absent(value)) return NOT_KNOWN;
  let size = Number(value);
  let unit = 0;
  while (size >= 1000 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(size < 1 ? 2 : 1)} ${UNITS[unit]}`;
}

export const rate = (value) => (absent(value) ? NOT_KNOWN : `${bytes(value)}/s`);

export function perSecond(value, what = "") {
  if (absent(value)) return NOT_KNOWN;
  const shown = value > 0 && value < 10 ? value.toFixed(1) : count(value);
  return `${shown}${what ? ` ${what}` : ""}/s`;
}

/** Seconds in the two largest units that say something. */
export function duration(seconds) {
  if (absent(seconds)) return NOT_KNOWN;
  if (seconds < 1) return seconds <= 0 ? "0 s" : `${Math.max(1, Math.round(seconds * 1000))} ms`;
  const whole = Math.floor(seconds);
  const parts = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = parts.findIndex(([, size]) => whole >= size);
  const [unit, size] = parts[first];
  const rest = whole % size;
  const next = parts[first + 1];
  const more = next && Math.floor(rest / next[1]) > 0 ? ` ${Math.floor(rest / next[1])} ${next[0]}` : "";
  return `${Math.floor(whole / size)} ${unit}${more}`;
}

const two = (number) => String(number).padStart(2, "0");

/** The one place that knows of zones: all times of the page, and the fields in which one is chosen. */
export const zone = { utc: true };

export function clock(when, { date = true, milliseconds = false } = {}) {
  const at = when instanceof Date ? when : new Date(when);
  if (Number.isNaN(at.getTime())) return NOT_KNOWN;
  const of = (name) => (zone.utc ? at[`getUTC${name}`]() : at[`get${name}`]());
  const day = `${of("FullYear")}-${two(of("Month") + 1)}-${two(of("Date"))}`;
  const fine = milliseconds ? `.${String(of("Milliseconds")).padStart(3, "0")}` : "";
  const time = `${two(of("Hours"))}:${two(of("Minutes"))}:${two(of("Seconds"))}${fine}`;
  return `${date ? `${day} ` : ""}${time}`;
}

/** A `<time>` in the chosen zone, with how long ago it was. */
export function moment(when, options = {}) {
  if (absent(when)) return NOT_KNOWN;
  const at = new Date(when);
  if (Number.isNaN(at.getTime())) return NOT_KNOWN;
  const ago = (Date.now() - at.getTime()) / 1000;
  const said = ago >= 0 ? `${duration(ago)} ago` : `in ${duration(-ago)}`;
  const exact = `${clock(at, options)}${zone.utc ? " UTC" : ""}`;
  return el("time", { datetime: at.toISOString(), title: options.ago ? exact : said },
    options.ago ? said : exact);
}

/** What a time field says, as the server takes it; null if it says no time. */
export function instant(text) {
  const at = new Date(zone.utc ? `${text}Z` : text);
  return Number.isNaN(at.getTime()) ? null : at.toISOString();
}

// Controls, marks that turn the direction of text, and what has no width: shown by name, obeyed never.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Text of strangers: in its own direction, unable to change what stands around it. */
export function foreign(text, { lines = false } = {}) {
  const parts = [];
  let from = 0;
  const shown = lines ? text : text.replace(/[\t\n]+/g, " ");
  for (const found of shown.matchAll(HIDDEN)) {
    if (found.index > from) parts.push(shown.slice(from, found.index));
    const code = found[0].codePointAt(0).toString(16).padStart(4, "0");
    parts.push(el("span", { class: "hidden-mark", title: `U+${code.toUpperCase()}` }, `\\u${code}`));
    from = found.index + 1;
  }
  parts.push(shown.slice(from));
  return el("bdi", { class: lines ? "foreign lines" : "foreign" }, parts);
}
