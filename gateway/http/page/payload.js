// Keys, values and headers: bytes of strangers, as text, JSON or hex.

import { el } from "./dom.js";
import { NONE, bytes, foreign } from "./format.js";

export const MODES = ["auto", "text", "json", "hex"];
const PREVIEW = 300;
const HEX_SHOWN = 8192;
// Beyond this a browser takes long to lay out many coloured pieces.
const COLOURED = 48 * 1024;

/** The bytes themselves, of what the server sent of them. */
function raw(part) {
  if (part.text !== undefined) return new TextEncoder().encode(part.text);
  return Uint8Array.from(atob(part.base64), (character) => character.charCodeAt(0));
}

const hidden = (part) => `hidden (${bytes(part.bytes)}): the server runs with --http-no-values`;
const text = (part) => part.text ?? new TextDecoder().decode(raw(part));

/** One or two lines of it, for a table. */
export function preview(part, mode = "auto") {
  if (part === null) return el("span", { class: "quiet" }, NONE);
  if (part.hidden) return el("span", { class: "quiet" }, hidden(part));
  if (part.bytes === 0) return el("span", { class: "quiet" }, "empty");
  const binary = mode === "hex" || (mode !== "text" && part.text === undefined);
  const shown = binary ? spaced(raw(part).subarray(0, PREVIEW / 3)) : foreign(text(part).slice(0, PREVIEW));
  return el("span", { class: "payload" }, shown);
}

const two = (byte) => byte.toString(16).padStart(2, "0");
const spaced = (data) => Array.from(data, two).join(" ");

/** All that is here of it, in a frame that scrolls; `name` says what it is. */
export function whole(part, mode, name) {
  if (part === null) return el("p", { class: "quiet" }, `${NONE} (null)`);
  if (part.hidden) return el("p", { class: "quiet" }, hidden(part));
  if (part.bytes === 0) return el("p", { class: "quiet" }, "empty");
  const kind = mode === "auto" ? guess(part) : mode;
  const frame = (content, style = "") =>
    el("div", { class: `block payload ${style}`, tabindex: "0", role: "region", "aria-label": name }, content);
  if (kind === "hex") return frame(dump(raw(part)), "hex");
  if (kind === "json") {
    const pretty = json(text(part));
    if (pretty) return frame(pretty);
    return [el("p", { class: "quiet" }, part.cut ? "Not all of it is here, so it cannot be read as JSON." : "This is no JSON."), frame(foreign(text(part), { lines: true }))];
  }
  return frame(foreign(text(part), { lines: true }));
}

function guess(part) {
  if (part.text === undefined) return "hex";
  return /^\s*[[{]/.test(part.text) && json(part.text) ? "json" : "text";
}

function dump(data) {
  const lines = [];
  for (let at = 0; at < Math.min(data.length, HEX_SHOWN); at += 16) {
    const row = data.subarray(at, at + 16);
    const letters = Array.from(row, (byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${spaced(row).padEnd(47)}  ${letters}`);
  }
  if (data.length > HEX_SHOWN) lines.push(`… the first ${bytes(HEX_SHOWN)} of ${bytes(data.length)} that are here`);
  return lines.join("\n");
}

// By its tokens: JSON.parse would change numbers beyond 2^53, and the order and the doubles of names.
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** Indented JSON, or null if it is none. */
function json(source) {
  try {
    JSON.parse(source);
  } catch {
    return null;
  }
  const tokens = source.match(TOKEN) ?? [];
  const parts = [];
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  tokens.forEach((token, index) => {
    const before = tokens[index - 1];
    const opens = before === "{" || before === "[";
    if (token === "}" || token === "]") {
      depth -= 1;
      parts.push(opens ? token : line() + token);
      return;
    }
    if (opens || before === ",") parts.push(line());
    if (token === "{" || token === "[") depth += 1;
    if (token === ":") parts.push(": ");
    else parts.push(token.startsWith('"') ? { quoted: token, name: tokens[index + 1] === ":" } : token);
  });
  if (source.length > COLOURED) return foreign(parts.map((part) => part.quoted ?? part).join(""), { lines: true });
  return el("span", { class: "foreign lines" }, parts.map((part) =>
    (part.quoted ? el("span", { class: part.name ? "j-name" : "j-text" }, foreign(part.quoted)) : part)));
}
