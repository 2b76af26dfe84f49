// Real tables. On a narrow screen each row becomes a card; the roles are said so that it stays a table for
// those who hear it.

import { changed } from "./address.js";
import { el } from "./dom.js";

/**
 * A table.
 *
 * `columns`: [{name, of: row => content, sort?: key of the server, number?: bool, strip?: bool, head?: bool, style?: class}].
 * `rows` with `key: row => string`. `sort` is the server's word for the order, `-bytes` or `name`.
 * `head` names the row; a `strip` gets the room that is left.
 */
export function table({ caption, columns, rows, key, sort = "", selected = null }) {
  const heads = columns.map((column) =>
    el("th", { scope: "col", role: "columnheader", class: kind(column), "aria-sort": order(column, sort) },
      column.sort ? sorter(column, sort) : column.name));
  const lines = rows.map((row) =>
    el("tr", { role: "row", key: key(row), class: selected === key(row) ? "selected" : false },
      columns.map((column) => cell(column, row))));
  return el("div", { class: "table-frame", role: "region", tabindex: "0", "aria-label": caption },
    el("table", { role: "table" },
      el("caption", { class: "unseen" }, caption),
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, heads)),
      el("tbody", { role: "rowgroup" }, lines)));
}

function kind(column) {
  return [column.number && "number", column.strip && "for-strip", column.style].filter(Boolean).join(" ") || false;
}

function cell(column, row) {
  const content = column.of(row);
  const attributes = { class: kind(column), "data-label": column.name };
  return column.head
    ? el("th", { ...attributes, scope: "row", role: "rowheader" }, content)
    : el("td", { ...attributes, role: "cell" }, content);
}

function order(column, sort) {
  if (!column.sort) return false;
  if (sort === column.sort) return "ascending";
  return sort === `-${column.sort}` ? "descending" : "none";
}

function sorter(column, sort) {
  // Of numbers people look for the largest, of names for the first.
  const first = column.number ? `-${column.sort}` : column.sort;
  const other = column.number ? column.sort : `-${column.sort}`;
  const next = sort === first ? other : first;
  return el("button", {
    type: "button", class: "sorter",
    onclick: () => { location.hash = changed({ sort: next, after: null }); },
  }, column.name, el("span", { class: "sort-mark", "aria-hidden": "true" }, sort === column.sort ? "↑" : sort === `-${column.sort}` ? "↓" : ""));
}

/** Links to the first and the next page, and how much of all is shown. */
export function pager({ shown, total, next, query, what, but = "" }) {
  const links = [];
  if (query.after) links.push(el("a", { class: "button", href: changed({ after: null }) }, "First page"));
  if (next) links.push(el("a", { class: "button", href: changed({ after: next }) }, "Next page"));
  return el("nav", { class: "pager", "aria-label": `Pages of ${what}` },
    el("p", {}, total === null || total === undefined ? `${shown} ${what}` : `${shown} of ${total} ${what}${but}`), links);
}
