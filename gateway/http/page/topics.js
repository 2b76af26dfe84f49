// All topics, a page at a time; the server sorts and searches.

import { link } from "./address.js";
import { el } from "./dom.js";
import { gauge } from "./draw.js";
import { bytes, count, duration, foreign, perSecond, rate } from "./format.js";
import { empty, head, tag } from "./parts.js";
import { keys } from "./api.js";
import { search } from "./search.js";
import { pager, table } from "./table.js";

export const topics = {
  title: () => "Topics",

  load: ({ query }, get) => get(["topics"], {
    q: query.q, sort: query.sort, after: query.after, limit: 50, internal: query.internal,
  }),

  stream: (data) => ({ view: "topics", keys: keys(data.items.map((topic) => topic.name)) }),

  apply(data, name, message) {
    if (name !== "rows") return;
    for (const topic of data.items) Object.assign(topic, message.rows[topic.name]);
    data.items = data.items.filter((topic) => !message.gone?.includes(topic.name));
  },

  render(data, { query }, { bootstrap }) {
    return [
      head("Topics"),
      search({ query, what: "topics", options: [["internal", "Show internal topics"]] }),
      data.items.length === 0 ? nothing(query, bootstrap) : el("div", { key: "list" },
        list(data.items, query.sort ?? "name"),
        pager({ shown: data.items.length, total: data.total, next: data.next, query, what: "topics", but: query.internal === "true" ? "" : ", internal ones left out" })),
    ];
  },
};

function nothing(query, bootstrap) {
  if (query.q) return empty("No topic has that in its name", `Looked for “${query.q}” in the names of all topics.`);
  return empty("No topics yet", "Make one here, or let a producer make it by writing to it.",
    [`dafka topics create orders --partitions 4 --bootstrap ${bootstrap}`]);
}

function list(items, sort) {
  const most = Math.max(1, ...items.map((topic) => topic.bytes ?? 0));
  return table({
    caption: "Topics",
    key: (topic) => topic.name,
    rows: items,
    sort,
    columns: [
      { name: "Topic", head: true, sort: "name",
        of: (topic) => [el("a", { href: link(["topics", topic.name]) }, foreign(topic.name)), " ", topic.internal && tag("internal"), health(topic)] },
      { name: "Beside the largest", strip: true, of: (topic) => gauge(((topic.bytes ?? 0) / most) * 100) },
      { name: "Size", number: true, sort: "bytes", of: (topic) => bytes(topic.bytes) },
      { name: "Partitions", number: true, sort: "partitions", of: (topic) => count(topic.partitions) },
      { name: "Offsets", number: true, sort: "offsets", of: (topic) => count(topic.offsets) },
      { name: "Records in", number: true, sort: "records_in", of: (topic) => perSecond(topic.records_in) },
      { name: "Bytes in", number: true, sort: "bytes_in", of: (topic) => rate(topic.bytes_in) },
      { name: "Kept", of: kept },
    ],
  });
}

/** What is not as it should be, in words. */
export function health(topic) {
  if (topic.offline > 0) return tag(`${count(topic.offline)} offline`, "wrong");
  if (topic.under_replicated > 0) return tag(`${count(topic.under_replicated)} lack copies`, "warned");
  return null;
}

export function kept(topic) {
  const age = topic.retention_ms === "-1" ? "for ever" : duration(Number(topic.retention_ms) / 1000);
  if (topic.cleanup_policy === "compact") return "compacted";
  return topic.cleanup_policy?.includes("compact") ? `compacted, ${age}` : age;
}
