// Gateways, stores and towers, as far as this gateway knows of them.

import { el } from "./dom.js";
import { gauge } from "./draw.js";
import { bytes, count, duration, foreign } from "./format.js";
import { figures, head, section, tag } from "./parts.js";
import { table } from "./table.js";

const NOT_TOLD = "not told";
const FILLING = 0.85;
const FULL = 0.95;

export const mesh = {
  title: () => "Mesh",
  load: (_address, get) => get(["mesh"]),
  stream: () => ({ view: "mesh" }),

  apply(data, name, message) {
    if (name !== "rows") return;
    for (const row of data.gateways) Object.assign(row, message.rows[`gateway:${row.id}`]);
    for (const row of data.stores) Object.assign(row, message.rows[`store:${row.id}`]);
    for (const row of data.towers) Object.assign(row, message.rows[`tower:${row.address}`]);
  },

  render(data) {
    return [
      head("Mesh", { about: "Records are kept by stores; the gateway speaks Kafka; towers tell them of each other." }),
      stores(data.stores),
      data.gateways.map(gateway),
      towers(data),
    ];
  },
};

function stores(items) {
  const told = (name) => items.some((store) => store[name] !== null);
  const silent = ["catch_up", "scrub", "fsync"].filter((name) => !told(name));
  return section("Stores", items.length === 0
    ? el("p", { class: "quiet" }, "none: start one with dafka store --data DIR, and admit it")
    : [silent.length > 0 && el("p", {}, "What they fetch, check and fsync is not told to the gateway: it is in each store's own --metrics."), table({
      caption: "Stores",
      key: (store) => String(store.id),
      rows: items,
      columns: [
        { name: "Store", head: true, of: (store) => [foreign(store.name), " ", el("span", { class: "quiet" }, `${store.id} `), presence(store)] },
        { name: "Disk", strip: true, of: disk },
        { name: "Free", number: true, of: (store) => (store.disk_bytes ? [`${bytes(store.free_bytes)} of ${bytes(store.disk_bytes)} `, filling(store)] : "not known") },
        (told("catch_up") || items.some((store) => store.segments_to_hear > 0)) && { name: "Catching up", of: catchUp },
        told("scrub") && { name: "Scrubbed", of: scrub },
        told("fsync") && { name: "fsync", number: true, of: (store) => (store.fsync === null ? NOT_TOLD : [`${(store.fsync.mean_seconds * 1000).toFixed(1)} ms`, el("span", { class: "quiet" }, `, at most ${(store.fsync.slowest_seconds * 1000).toFixed(0)} ms`)]) },
        told("version") && { name: "Version", of: (store) => store.version ?? NOT_TOLD },
      ].filter(Boolean),
    })]);
}

function presence(store) {
  if (store.state !== "admitted") return tag(store.state, "warned");
  if (store.live) return null;
  return tag(store.silent_seconds === null ? "never heard of" : `away for ${duration(store.silent_seconds)}`, "wrong");
}

const used = (store) => 1 - store.free_bytes / store.disk_bytes;

function disk(store) {
  return store.disk_bytes ? gauge(used(store) * 100, used(store) > FULL ? "full" : "") : null;
}

function filling(store) {
  if (used(store) > FULL) return tag("nearly full", "wrong");
  return used(store) > FILLING ? tag("filling up", "warned") : null;
}

function catchUp({ catch_up: work, segments_to_hear: waiting }) {
  if (work === null) return waiting > 0 ? `${count(waiting)} segments to hear of` : NOT_TOLD;
  return work.addresses === 0 ? "nothing to fetch" : `${count(work.addresses)} segments, ${bytes(work.copied_bytes)} so far`;
}

function scrub({ scrub: work }) {
  if (work === null) return NOT_TOLD;
  const bad = work.damaged + work.irreparable + work.differing;
  if (bad > 0) return tag(`${count(bad)} damaged`, "wrong");
  return `${bytes(work.bytes)}, all good`;
}

function gateway(item) {
  const { memory, loop, compaction } = item;
  return el("section", { key: `gateway ${item.id}` },
    el("h2", {}, `Gateway ${item.id}`, " ", item.this && tag("this one")),
    figures([
      ["Listens on", item.listeners.map((listener, index) => [index > 0 && ", ", listener])],
      ["Version", item.version],
      ["Runs for", duration(item.uptime_seconds)],
      ["Longest turn of its loop", duration(loop.longest_seconds)],
      ["Newest records in memory", `${bytes(memory.tail_cache_bytes)} of ${bytes(memory.tail_cache_limit_bytes)}`],
      ["Waiting for stores", bytes(memory.window_bytes)],
      ["Compactions", `${count(compaction.runs)}, ${count(compaction.failures)} failed`],
      ["Process", `${item.pid} on ${item.host}`],
    ]),
    compaction.last_error ? el("p", { class: "notice" }, "The last compaction failed: ", foreign(compaction.last_error)) : null);
}

function towers({ towers: items, peers }) {
  if (items.length === 0 && peers.length === 0) {
    return section("Towers", el("p", { class: "quiet" }, "none: a standalone server finds its store in its own process"));
  }
  return [
    section("Towers", items.length === 0 ? el("p", { class: "quiet" }, "none") : table({
      caption: "Towers",
      key: (tower) => tower.address,
      rows: items,
      columns: [
        { name: "Tower", head: true, of: (tower) => foreign(tower.address) },
        { name: "Link", of: (tower) => (tower.connected ? "connected" : tag("away", "wrong")) },
        { name: "Last heard of", number: true, of: (tower) => (tower.silent_seconds === null ? "never" : `${duration(tower.silent_seconds)} ago`) },
      ],
    })),
    section("Links", peers.length === 0 ? el("p", { class: "quiet" }, "none") : table({
      caption: "Links",
      key: (peer) => `${peer.node} ${peer.endpoint}`,
      rows: peers,
      columns: [
        { name: "Node", head: true, of: (peer) => el("span", { class: "mono" }, foreign(peer.node)) },
        { name: "Address", of: (peer) => foreign(peer.endpoint) },
        { name: "State", of: (peer) => peer.state },
      ],
    })),
  ];
}
