// What several views show in the same way.

import { el } from "./dom.js";
import { strip } from "./draw.js";
import { foreign } from "./format.js";

/** The heading of a view; `crumbs` are [text, address] of what it is in. */
export function head(title, { crumbs = [], about = null } = {}) {
  return el("div", { class: "head", key: "head" },
    crumbs.length > 0 && el("nav", { class: "crumbs", "aria-label": "Where this is" },
      el("ol", {}, crumbs.map(([text, href]) => el("li", {}, el("a", { href }, foreign(text)))))),
    el("h1", { tabindex: "-1" }, foreign(title)),
    about && el("p", { class: "quiet" }, about));
}

/** A list of [name, content] of the numbers that matter most. */
export function figures(pairs) {
  return el("dl", { class: "figures" },
    pairs.filter(Boolean).map(([name, ...content]) => el("div", {}, el("dt", {}, name), el("dd", {}, content))));
}

export function pairs(items) {
  return el("dl", { class: "pairs" },
    items.filter(Boolean).map(([name, ...content]) => [el("dt", {}, name), el("dd", {}, content)]));
}

/** Something to type, with a button that copies it. */
export function command(text) {
  const copy = async (event) => {
    const button = event.currentTarget;
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  };
  return el("div", { class: "command" },
    el("code", { tabindex: "0", role: "group", "aria-label": "Command" }, text),
    // Browsers let a page write to the clipboard only where nobody could have changed it on its way.
    navigator.clipboard && el("button", { type: "button", onclick: copy, "aria-label": `Copy the command ${text}` }, "Copy"));
}

/** Nothing is here, why, and what to do next. */
export function empty(title, text, commands = []) {
  return el("div", { class: "empty" },
    el("h2", {}, title), text && el("p", { class: "quiet" }, text), el("div", { class: "steps" }, commands.map(command)));
}

export function section(title, ...content) {
  return el("section", { key: `section ${title}` }, el("h2", {}, title), content);
}

export function legend(...kinds) {
  const pictures = {
    log: ["written", { start: 0, end: 1, until: 1 }],
    unread: ["not read yet", { start: 0, end: 1, until: 1, read: 0 }],
    gone: ["deleted, or not written yet", { start: 0, end: 0, until: 1 }],
  };
  return el("p", { class: "legend" }, kinds.map((kind) => el("span", {}, strip(pictures[kind][1]), pictures[kind][0])));
}

export function tag(text, level = "") {
  return el("span", { class: `tag ${level}` }, text);
}
