// All groups, a page at a time.

import { link } from "./address.js";
import { keys } from "./api.js";
import { el } from "./dom.js";
import { NOT_KNOWN, count, duration, foreign } from "./format.js";
import { empty, head, tag } from "./parts.js";
import { search } from "./search.js";
import { pager, table } from "./table.js";

export const groups = {
  title: () => "Groups",

  load: ({ query }, get) => get(["groups"], { q: query.q, sort: query.sort, after: query.after, limit: 50 }),

  stream: (data) => ({ view: "groups", keys: keys(data.items.map((group) => group.group)) }),

  apply(data, name, message) {
    if (name !== "rows") return;
    for (const group of data.items) Object.assign(group, message.rows[group.group]);
    data.items = data.items.filter((group) => !message.gone?.includes(group.group));
  },

  render(data, { query }, { bootstrap }) {
    return [
      head("Groups"),
      search({ query, what: "groups" }),
      data.loading > 0 && el("p", { class: "notice", role: "status", key: "loading" },
        `Not loaded yet: the groups in ${data.loading} partitions of __consumer_offsets.`),
      data.items.length === 0 ? nothing(query, bootstrap) : el("div", { key: "list" },
        list(data.items, query.sort ?? "group"),
        pager({ shown: data.items.length, total: data.total, next: data.next, query, what: "groups" })),
    ];
  },
};

function nothing(query, bootstrap) {
  if (query.q) return empty("No group has that in its name", `Looked for “${query.q}” in the names of all groups.`);
  return empty("No groups yet", "A group is there once a consumer joins it or commits an offset for it.",
    [`kcat -b ${bootstrap} -G readers TOPIC`]);
}

function list(items, sort) {
  return table({
    caption: "Groups",
    key: (group) => group.group,
    rows: items,
    sort,
    columns: [
      { name: "Group", head: true, sort: "group", of: (group) => el("a", { href: link(["groups", group.group]) }, foreign(group.group)) },
      { name: "State", sort: "state", of: (group) => tag(group.state) },
      { name: "Members", number: true, sort: "members", of: (group) => count(group.members) },
      { name: "Reads", of: reads },
      { name: "Offsets kept", number: true, sort: "offsets", of: (group) => count(group.offsets) },
      { name: "Lag", number: true, of: lag },
      { name: "Behind", number: true, of: behind },
    ],
  });
}

function reads(group) {
  if (group.topics.length === 0) return "none";
  const more = group.topics_total - group.topics.length;
  return [group.topics.map((name, index) => [index > 0 && ", ", foreign(name)]), more > 0 && `, and ${more} more`];
}

/** How many offsets are not read yet, in words where that is no number. */
export function lag(row) {
  if (row.lag_not_loaded) return "not loaded";
  if (row.lag === null) return isUnknown(row) ? NOT_KNOWN : "no commit";
  if (row.lag_unknown > 0) return el("span", { class: "late" }, `at least ${count(row.lag)}`);
  return row.lag === "0" ? "0" : el("span", { class: "late" }, count(row.lag));
}

/** Something is committed, and the gateway that leads the log has not said where that ends. */
const isUnknown = (row) => row.lag_unknown > 0 || (row.committed ?? null) !== null;

/** How long the first unread record has waited. */
export function behind(row) {
  if (row.behind_start) return tag("lost records", "wrong");
  if (row.lag === null && !isUnknown(row)) return "no commit";
  return row.lag_seconds === null ? NOT_KNOWN : duration(row.lag_seconds);
}
