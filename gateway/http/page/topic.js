// One topic: its partitions as strips on one ruler, and its configs.

import { changed, link } from "./address.js";
import { keys } from "./api.js";
import { el } from "./dom.js";
import { strip } from "./draw.js";
import { bytes, count, foreign, moment, perSecond, rate } from "./format.js";
import { figures, head, legend, section, tag } from "./parts.js";
import { pager, table } from "./table.js";
import { health, kept } from "./topics.js";

export const topic = {
  title: ({ path }) => path[1],

  async load({ path, query }, get) {
    const data = await get(["topics", path[1]]);
    if (query.after) data.partitions_page = await get(["topics", path[1], "partitions"], { after: query.after });
    return data;
  },

  stream: (data) => ({
    view: "topic", topic: data.name, keys: keys(data.partitions_page.items.map((row) => String(row.partition))),
  }),

  apply(data, name, message) {
    if (name !== "rows") return;
    Object.assign(data, message.rows[""]);
    for (const row of data.partitions_page.items) Object.assign(row, message.rows[String(row.partition)]);
  },

  render(data, { query }) {
    return [
      head(data.name, { crumbs: [["Topics", link(["topics"])]] }),
      tabs(data.name, query.show === "configs" ? "configs" : "partitions"),
      query.show === "configs" ? configs(data, query.all === "true") : [
        el("div", { key: "figures" }, figures([
          ["Size", bytes(data.bytes)],
          ["Records in", perSecond(data.records_in)],
          ["Bytes in", rate(data.bytes_in)],
          ["Offsets", count(data.offsets)],
          ["Copies", count(data.replication_factor)],
          ["Kept", kept(data)],
          health(data) && ["Health", health(data)],
        ])),
        partitions(data, query),
        groups(data),
      ],
    ];
  },
};

/** The three faces of a topic. */
export function tabs(name, current) {
  const faces = [
    ["partitions", "Partitions", link(["topics", name])],
    ["records", "Records", link(["topics", name, "records"])],
    ["configs", "Configs", link(["topics", name], { show: "configs" })],
  ];
  return el("nav", { class: "tabs", key: "tabs", "aria-label": `Of the topic ${name}` },
    el("ul", {}, faces.map(([face, text, href]) =>
      el("li", {}, el("a", { href, "aria-current": face === current ? "page" : false }, text)))));
}

function partitions(data, query) {
  const { items, next, total } = data.partitions_page;
  const until = items.reduce((most, row) => (BigInt(row.end) > most ? BigInt(row.end) : most), 1n);
  return section("Partitions",
    legend("log", "gone"),
    table({
      caption: `Partitions of ${data.name}`,
      key: (row) => String(row.partition),
      rows: items,
      columns: [
        { name: "Partition", head: true, of: (row) =>
          [el("a", { href: link(["topics", data.name, "records"], { partition: row.partition }), "aria-label": `Records of partition ${row.partition}` }, String(row.partition)), " ", state(row)] },
        { name: "From offset 0 on", strip: true, of: (row) => strip({ start: row.start, end: row.end, until }) },
        { name: "First offset", number: true, of: (row) => count(row.start) },
        { name: "Next offset", number: true, of: (row) => count(row.end) },
        { name: "Size", number: true, of: (row) => bytes(row.bytes) },
        { name: "Records in", number: true, of: (row) => perSecond(row.records_in) },
        { name: "Newest", of: (row) => (row.newest_ms ? moment(Number(row.newest_ms), { ago: true }) : "none") },
        { name: "Stores", number: true, of: (row) => `${row.stores_here.length} of ${row.stores.length}` },
      ],
    }),
    next || query.after ? pager({ shown: items.length, total, next, query, what: "partitions" }) : null);
}

function state(row) {
  if (row.state === "serving") {
    return row.stores_here.length < row.stores.length ? tag("lacks copies", "warned") : null;
  }
  return [tag(row.state, row.state === "failed" ? "wrong" : "warned"), row.reason && el("span", { class: "quiet" }, " ", foreign(row.reason))];
}

function groups(data) {
  const { items, total } = data.groups;
  return section("Groups that have read from it", items.length === 0
    ? el("p", { class: "quiet" }, "none: no group has committed an offset here")
    : el("p", {}, items.map((name, index) => [index > 0 && ", ", el("a", { href: link(["groups", name]) }, foreign(name))]),
      total > items.length && `, and ${total - items.length} more`));
}

function configs(data, all) {
  const own = data.configs.filter((config) => config.source !== "default");
  const shown = all ? data.configs : own;
  return section("Configs",
    el("p", {}, all ? "All of them." : "What differs from the defaults. ",
      " ", el("a", { href: changed({ all: all ? null : "true" }) }, all ? "Only what differs from the defaults" : `All ${data.configs.length}`)),
    shown.length === 0 ? el("p", { class: "quiet" }, "none: everything is as the defaults say") : table({
      caption: `Configs of ${data.name}`,
      key: (config) => config.name,
      rows: shown,
      columns: [
        { name: "Config", head: true, of: (config) => el("code", {}, config.name) },
        { name: "Value", of: (config) => el("code", {}, foreign(config.value === null ? "null" : String(config.value))) },
        { name: "From", of: (config) => config.source },
        { name: "What it does", of: (config) => el("span", { class: "quiet" }, config.documentation ?? "") },
      ],
    }));
}
