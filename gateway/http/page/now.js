// What is wrong and the command that helps; calm when nothing is.

import { link } from "./address.js";
import { el } from "./dom.js";
import { gauge, sparkline } from "./draw.js";
import { bytes, count, duration, foreign, moment, perSecond, rate } from "./format.js";
import { behind, lag } from "./groups.js";
import { command, empty, figures, section, tag } from "./parts.js";
import { table } from "./table.js";

const LOOK = { topic: "topics", group: "groups", mesh: "mesh", clients: "clients" };

export const now = {
  title: () => "Now",

  async load(_address, get) {
    const [overview, problems, some] = await Promise.all([get(["overview"]), get(["problems"]), lists(get)]);
    return { overview, problems: problems.items, ...some };
  },

  // Which topics are the busiest changes, so there are no rows to follow.
  again: lists,

  stream: () => ({ view: "now" }),

  apply(data, name, message) {
    if (name !== "now") return;
    Object.assign(data.overview, message.overview, { as_of: message.as_of });
    if (message.problems) data.problems = message.problems;
  },

  render(data, _address, { history, bootstrap }) {
    return [
      opening(data),
      data.problems.length > 0 && problems(data.problems),
      data.overview.topics === 0 && data.topics.length === 0 ? first(bootstrap) : [
        numbers(data.overview),
        traffic(history),
        el("div", { class: "columns", key: "busy" }, topics(data.topics), groups(data.groups, bootstrap)),
      ],
    ];
  },
};

async function lists(get) {
  const [topics, groups] = await Promise.all([
    get(["topics"], { sort: "-bytes_in", limit: 6 }), get(["groups"], { limit: 6 }),
  ]);
  return { topics: topics.items, groups: groups.items };
}

function opening({ overview, problems: wrong }) {
  const critical = wrong.filter((problem) => problem.severity === "critical").length;
  return el("div", { class: "head", key: "head" },
    el("h1", { class: "sentence", tabindex: "-1" }, sentence(overview, critical, wrong.length)),
    el("p", {}, story(overview)));
}

function sentence(overview, critical, all) {
  if (!overview.ready && all === 0) return "Not serving yet.";
  if (all === 0) return "Nothing is wrong.";
  const things = (number) => (number === 1 ? "One thing" : `${number} things`);
  if (critical === all) return `${things(all)} ${all === 1 ? "does" : "do"} not work.`;
  if (critical === 0) return `${things(all)} to look at.`;
  return `${things(critical)} ${critical === 1 ? "does" : "do"} not work, and ${all - critical} more to look at.`;
}

function story(overview) {
  if (!overview.ready && overview.because) return overview.because;
  const serving = overview.partitions_by_state?.serving ?? 0;
  const partitions = serving === overview.partitions
    ? `All ${count(serving)} partitions serve` : `${count(serving)} of ${count(overview.partitions)} partitions serve`;
  const { stores: all, stores_live: here } = overview;
  const stores = all === 1 ? "one store" : here === all ? `${count(all)} stores` : `${count(here)} of ${count(all)} stores`;
  return `${partitions}, on ${stores}. Up for ${duration(overview.uptime_seconds)}.`;
}

function problems(items) {
  return el("section", { key: "problems" }, el("h2", { class: "unseen" }, "What is wrong"),
    el("ul", { class: "problems", "aria-live": "polite" }, items.map(problem)));
}

function problem(item) {
  const place = item.view && LOOK[item.view];
  const inside = item.key && (item.view === "topic" || item.view === "group");
  return el("li", { class: `problem ${item.severity}`, key: item.id },
    el("p", { class: "level" }, item.severity === "critical" ? "Does not work" : "To look at",
      item.since_ms && [", since ", moment(Number(item.since_ms))]),
    el("h3", { class: "what" }, foreign(item.title)),
    el("p", {}, foreign(item.detail)),
    item.next_step && el("p", {}, foreign(item.next_step)),
    item.command && command(item.command),
    place && el("p", {}, el("a", { href: link(inside ? [place, item.key] : [place]) }, inside ? `Look at ${item.key}` : `Look at the ${item.view}`)));
}

function numbers(overview) {
  const { rates = {} } = overview;
  return el("div", { key: "numbers" }, figures([
    ["Records in", perSecond(rates.records_in)],
    ["Bytes in", rate(rates.bytes_in)],
    ["Requests", perSecond(rates.requests)],
    ["Kept", bytes(overview.bytes)],
    ["Topics", count(overview.topics)],
    ["Groups", count(overview.groups)],
    ["Connections", count(overview.connections)],
  ]));
}

function traffic(history) {
  const known = history.filter((point) => point !== null);
  const most = known.length > 0 ? Math.max(...known) : 0;
  const chart = sparkline(history, `Records written in each of the last 60 seconds, at most ${count(most)}`,
    { kind: "log", width: 900, height: 112 });
  chart.classList.add("tall");
  return el("figure", { class: "chart", key: "traffic" },
    el("figcaption", {}, el("span", {}, "Records written, the last minute"), el("span", {}, `most: ${perSecond(most)}`)),
    chart);
}

function topics(items) {
  const most = Math.max(1, ...items.map((topic) => topic.bytes ?? 0));
  return section("Busiest topics", items.length === 0 ? el("p", { class: "quiet" }, "none but internal ones") : table({
    caption: "Busiest topics",
    key: (topic) => topic.name,
    rows: items,
    columns: [
      { name: "Topic", head: true, of: (topic) => el("a", { href: link(["topics", topic.name]) }, foreign(topic.name)) },
      { name: "Beside the largest", strip: true, of: (topic) => gauge(((topic.bytes ?? 0) / most) * 100) },
      { name: "Size", number: true, of: (topic) => bytes(topic.bytes) },
      { name: "Bytes in", number: true, of: (topic) => rate(topic.bytes_in) },
    ],
  }));
}

function groups(items, bootstrap) {
  if (items.length === 0) {
    return section("Groups", empty("Nobody has committed an offset yet", "A consumer with a group shows up here, with its lag.",
      [`kcat -b ${bootstrap} -G readers TOPIC`]));
  }
  return section("Groups", table({
    caption: "Groups",
    key: (group) => group.group,
    rows: items,
    columns: [
      { name: "Group", head: true, of: (group) => el("a", { href: link(["groups", group.group]) }, foreign(group.group)) },
      { name: "State", of: (group) => tag(group.state) },
      { name: "Lag", number: true, of: lag },
      { name: "Behind", number: true, of: behind },
    ],
  }));
}

function first(bootstrap) {
  return empty("No topics yet", "Make the first one, write a record to it, and look at this page again: it moves by itself.", [
    `dafka topics create orders --partitions 4 --bootstrap ${bootstrap}`,
    `echo hello | kcat -b ${bootstrap} -t orders -P`,
  ]);
}
