// The field above a list. It searches as one types, at the server, a moment after the last key.

import { changed, go } from "./address.js";
import { el } from "./dom.js";

const REST_MS = 200;
let pending = 0;

/** `options`: [parameter, text] of what can be switched on. */
export function search({ query, what, options = [] }) {
  return el("form", { key: "search", role: "search", onsubmit: (event) => event.preventDefault() },
    el("label", {}, `Find ${what}`,
      el("input", {
        type: "search", name: "q", value: query.q ?? "", autocomplete: "off", spellcheck: "false", maxlength: "249",
        oninput: (event) => {
          const { value } = event.currentTarget;
          clearTimeout(pending);
          pending = setTimeout(() => go(changed({ q: value || null, after: null }), { quietly: true }), REST_MS);
        },
      })),
    options.map(([name, text]) => el("a", {
      class: "button", role: "button", "aria-pressed": query[name] === "true" ? "true" : "false",
      href: changed({ [name]: query[name] === "true" ? null : "true", after: null }),
    }, query[name] === "true" ? text.replace("Show", "Hide") : text)));
}
