// Records of a topic: the last ones, from an offset, from a time, or as they come; one of them in full.

import { changed, go, link, read } from "./address.js";
import { el } from "./dom.js";
import { bytes, clock, count, duration, foreign, instant, moment, zone } from "./format.js";
import { empty, head, pairs, tag } from "./parts.js";
import { MODES, preview, whole } from "./payload.js";
import { table } from "./table.js";
import { tabs } from "./topic.js";

const LAST = "last:50";
const LIVE_KEPT = 500;
const FULL_BYTES = 1 << 20;
const WAYS = { last: "The last", offset: "From offset", time: "From time", live: "Live, as they come" };

// A click on a record changes the address, and must not read the log again: it would have moved.
let kept = { asked: null, data: null };
// What is chosen in the form and not asked for yet.
let draft = null;
// The record that is open.
let focused = null;

export const records = {
  title: ({ path }) => `Records of ${path[1]}`,

  async load({ path, query }, get, arrived) {
    const topic = path[1];
    if (arrived) kept = { asked: null, data: null };
    const asked = JSON.stringify([topic, query.from, query.partition, query.after]);
    if (kept.asked !== asked) {
      draft = null;
      const live = query.from === "live";
      const [about, list] = await Promise.all([
        get(["topics", topic]),
        live ? { items: [], batches: {}, partitions: [], next: null, stopped: null } : get(["topics", topic, "records"], {
          from: query.from ?? LAST, partition: query.partition, limit: limit(query.from ?? LAST), after: query.after,
        }),
      ]);
      kept = { asked, data: { topic, count: about.partitions, live, list, received: 0, skipped: 0n } };
    }
    kept.data.opened = await one(topic, query, get);
    return kept.data;
  },

  stream: (data, { query }) =>
    (data.live ? { view: "records", topic: data.topic, partition: query.partition ?? "all" } : { view: "now" }),

  apply(data, name, message) {
    if (name === "skipped" && message.offsets) data.skipped += BigInt(message.offsets);
    if (name !== "records" || !data.live) return;
    const seen = new Set(data.list.items.map(key));
    const come = message.items.filter((item) => !seen.has(key(item)));
    data.received += come.length;
    data.list.items = [...data.list.items, ...come].slice(-LIVE_KEPT);
  },

  /** The record that was opened gets the focus, and the row that it was opened from once it is closed. */
  drawn({ query }, arrived) {
    if (arrived) focused = query.open ?? null;
    if ((query.open ?? null) === focused) return;
    const rows = document.querySelectorAll(".records tbody tr");
    const place = query.open ? document.querySelector(".details h3") : [...rows].find((row) => row.key === focused)?.querySelector("a");
    place?.focus();
    focused = query.open ?? null;
  },

  render(data, { query }, { bootstrap }) {
    return [
      head(data.topic, { crumbs: [["Topics", link(["topics"])]] }),
      tabs(data.topic, "records"),
      form(data, query),
      shown(data, query, bootstrap),
    ];
  },
};

const key = (item) => `${item.partition}:${item.offset}`;
const limit = (from) => Math.min(500, Math.max(1, Number(/^last:(\d+)$/.exec(from)?.[1] ?? 50)));

async function one(topic, query, get) {
  const found = /^(\d+):(\d+)$/.exec(query.open ?? "");
  if (!found) return null;
  try {
    return await get(["topics", topic, "partitions", found[1], "records", found[2]],
      query.full === "true" ? { max_bytes: FULL_BYTES } : {});
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    return { problem };
  }
}

/** `{way, value}` of what the address asks for. */
function asked(query) {
  const [way, ...rest] = (query.from ?? LAST).split(":");
  return { way: WAYS[way] ? way : "last", value: rest.join(":"), partition: query.partition ?? "all" };
}

function form(data, query) {
  const now = { ...asked(query), ...draft };
  const choose = (changes) => {
    draft = { ...draft, ...changes };
    window.dispatchEvent(new Event("redraw"));
  };
  const submit = (event) => {
    event.preventDefault();
    const wanted = from(now.way, event.currentTarget.elements.value?.value.trim() ?? "");
    if (wanted === null) return;
    kept = { asked: null, data: null };
    draft = null;
    const there = link(read().path, { from: wanted, partition: now.partition === "all" ? null : now.partition, order: query.order, key: query.key, value: query.value });
    if (there === location.hash) window.dispatchEvent(new HashChangeEvent("hashchange"));
    else go(there);
  };
  const option = (value, text, chosen) => el("option", { value, selected: value === chosen }, text);
  return el("form", { key: "form", onsubmit: submit, "aria-label": "Which records" },
    el("label", {}, "Read",
      el("select", { name: "way", onchange: (event) => choose({ way: event.currentTarget.value, value: "" }) },
        Object.entries(WAYS).map(([way, text]) => option(way, text, now.way)))),
    value(now),
    el("label", {}, "Of partition",
      el("select", { name: "partition", onchange: (event) => choose({ partition: event.currentTarget.value }) },
        option("all", "all", now.partition),
        Array.from({ length: Math.min(data.count, 1000) }, (_, number) => option(String(number), String(number), now.partition)))),
    el("button", { type: "submit", class: "main" }, now.way === "live" ? "Watch" : "Read"));
}

function value({ way, value: said }) {
  const field = (label, attributes) =>
    el("label", { key: `value ${way}` }, label, el("input", { name: "value", required: true, autocomplete: "off", ...attributes }));
  if (way === "last") return field("How many of each partition", { type: "number", min: 1, max: 500, value: said || "50" });
  if (way === "offset") return field("Offset", { inputmode: "numeric", pattern: "\\d+", value: said || "0" });
  if (way === "live") return null;
  const when = said ? new Date(said) : new Date(Date.now() - 3600e3);
  return field(zone.utc ? "Time (UTC)" : "Time (of this computer)", {
    type: "datetime-local", step: 1, value: Number.isNaN(when.getTime()) ? "" : clock(when).replace(" ", "T"),
  });
}

function from(way, said) {
  if (way === "live") return "live";
  if (way !== "time") return `${way}:${said}`;
  const when = instant(said);
  return when && `time:${when}`;
}

function shown(data, query, bootstrap) {
  const { items } = data.list;
  const newest = query.order ? query.order === "newest" : data.live || asked(query).way === "last";
  const rows = newest ? [...items].reverse() : items;
  return el("section", { class: "records", key: "shown" },
    el("div", { class: "controls" }, el("h2", {}, data.live ? "Live" : "Records"),
      choice("Order", ["newest first", "oldest first"], newest ? "newest first" : "oldest first", (order) => ({ order: order.split(" ")[0] })),
      choice("Keys as", MODES, query.key ?? "auto", (mode) => ({ key: mode === "auto" ? null : mode })),
      choice("Values as", MODES, query.value ?? "auto", (mode) => ({ value: mode === "auto" ? null : mode }))),
    el("p", { class: "quiet", key: "said" }, said(data)),
    data.list.partitions.filter((row) => row.error).map((row) =>
      el("p", { class: "notice" }, `Partition ${row.partition} failed: `, foreign(row.error))),
    query.open && opened(data, query),
    rows.length === 0 ? nothing(data, bootstrap) : list(rows, query),
    data.list.next && !data.live && el("p", { class: "pager" },
      el("a", { class: "button", href: changed({ after: data.list.next, open: null }) }, "Go on after these")));
}

function said(data) {
  const { list } = data;
  if (data.live) {
    const lost = data.skipped > 0n ? ` ${count(String(data.skipped))} were skipped: they came faster than they are shown.` : "";
    return `${count(data.received)} came since this view was opened; the newest ${LIVE_KEPT} are kept.${lost}`;
  }
  const why = {
    limit: "There are more.", partitions: "Only the first 100 partitions with records were read.",
    bytes: `Stopped after ${bytes(list.read.bytes)} of log. Go on?`, seconds: "Stopped after ten seconds. Go on?",
  };
  return `${count(list.items.length)} records, looked for in ${bytes(list.read.bytes)} of log in ${duration(list.read.seconds)}. `
    + (why[list.stopped] ?? "Everything up to the end was looked at.");
}

function nothing(data, bootstrap) {
  if (data.live) return empty("Waiting for records", "They show up here as they become durable.", [`echo hello | kcat -b ${bootstrap} -t ${data.topic} -P`]);
  if (data.list.next) return empty("No records in what was looked at", "The log goes on: read further, or begin later.");
  return empty("No records there", "The log ends before, or holds nothing. Read the last ones, or write one:",
    [`echo hello | kcat -b ${bootstrap} -t ${data.topic} -P`]);
}

function choice(name, values, current, change) {
  return el("div", { class: "choice", role: "group", "aria-label": name }, el("span", { "aria-hidden": "true" }, name),
    values.map((value) => el("a", { href: changed(change(value)), "aria-current": value === current ? "true" : false }, value === "json" ? "JSON" : value)));
}

function list(rows, query) {
  return table({
    caption: "Records",
    key,
    rows,
    selected: query.open,
    columns: [
      { name: "Offset", head: true, style: "c-at", of: (item) => el("a", {
        href: changed({ open: query.open === key(item) ? null : key(item), full: null }),
        "aria-current": query.open === key(item) ? "true" : false,
      }, item.offset) },
      { name: "Partition", style: "c-partition", of: (item) => String(item.partition) },
      { name: "Time", style: "c-time", of: (item) => (item.timestamp_ms === null ? "none" : moment(Number(item.timestamp_ms), { milliseconds: true })) },
      { name: "Key", style: "c-key full", of: (item) => preview(item.key, query.key) },
      { name: "Value", style: "full", of: (item) => preview(item.value, query.value) },
    ],
  });
}

function opened(data, query) {
  const close = el("a", { class: "button", href: changed({ open: null, full: null }) }, "Close");
  if (data.opened === null || data.opened.problem) {
    const { problem } = data.opened ?? {};
    return el("div", { class: "details", key: "opened", role: "region", "aria-label": "One record" },
      el("header", {}, el("h3", { tabindex: "-1" }, problem?.title ?? "No such record"), close),
      problem && el("p", {}, foreign(`${problem.message} ${problem.nextStep ?? ""}`)));
  }
  const { record, batch } = data.opened;
  const name = `offset ${record.offset} of partition ${record.partition}`;
  const cut = record.key?.cut || record.value?.cut;
  return el("div", { class: "details", key: "opened", role: "region", "aria-label": `Record at ${name}` },
    el("header", {}, el("h3", { tabindex: "-1" }, `Record at ${name}`), close),
    part("Key", record.key, query.key),
    part("Value", record.value, query.value),
    cut && (query.full === "true"
      ? el("p", { class: "quiet" }, "This is the first MiB. A Kafka client reads all of it.")
      : el("p", {}, el("a", { class: "button", href: changed({ full: "true" }) }, "Load up to 1 MiB"))),
    headers(record),
    about(record, batch));
}

function part(name, content, mode = "auto") {
  const size = content === null ? "" : `, ${bytes(content.bytes)}${content.cut ? ", cut" : ""}`;
  return el("div", { class: "steps" }, el("h3", {}, `${name}${size}`), whole(content, mode, name));
}

function headers(record) {
  if (record.headers.length === 0) return el("div", { class: "steps" }, el("h3", {}, "Headers"), el("p", { class: "quiet" }, "none"));
  const more = record.headers_total - record.headers.length;
  return el("div", { class: "steps" }, el("h3", {}, "Headers"),
    el("dl", { class: "pairs" }, record.headers.map((header) =>
      [el("dt", {}, foreign(header.key)), el("dd", {}, preview(header.value))])),
    more > 0 && el("p", { class: "quiet" }, `and ${count(more)} more`));
}

function about(record, batch) {
  return el("details", {}, el("summary", {}, "Batch"), pairs([
    ["Timestamp", record.timestamp_ms === null ? "none" : moment(Number(record.timestamp_ms), { milliseconds: true }), ` (${record.timestamp_type})`],
    ["Offsets", `${batch.base_offset} to ${batch.last_offset}, ${count(batch.records)} records`],
    ["Size in the log", bytes(batch.bytes)],
    ["Codec", batch.codec],
    ["Leader epoch", count(batch.leader_epoch)],
    ["Producer", batch.producer_id === null ? "not idempotent" : `${batch.producer_id}, epoch ${batch.producer_epoch}, sequence from ${batch.base_sequence}`],
    ["CRC", el("code", {}, batch.crc)],
    (batch.transactional || batch.control) && ["Kind", batch.transactional && tag("transactional"), " ", batch.control && tag("control")],
  ]));
}
