// One group: how far it has come in each log, how its lag moves, and who reads what.

import { link } from "./address.js";
import { keys } from "./api.js";
import { el } from "./dom.js";
import { sparkline, strip } from "./draw.js";
import { count, foreign, moment } from "./format.js";
import { behind, lag } from "./groups.js";
import { command, empty, figures, head, legend, section, tag } from "./parts.js";
import { pager, table } from "./table.js";

const POINTS = 60;

export const group = {
  title: ({ path }) => path[1],

  load: ({ path, query }, get) => get(["groups", path[1]], { after: query.after }),

  stream: (data) => ({ view: "group", group: data.group, keys: keys(data.partitions_page.items.map(name)) }),

  apply(data, kind, message) {
    if (kind !== "rows") return;
    const { trend_point: point, ...own } = message.rows[""] ?? {};
    Object.assign(data, own);
    for (const row of data.partitions_page.items) Object.assign(row, message.rows[name(row)]);
    if (point && data.trend.points.at(-1)?.[0] !== point[0]) data.trend.points = [...data.trend.points, point].slice(-POINTS);
  },

  render(data, { query }, { bootstrap }) {
    return [
      head(data.group, { crumbs: [["Groups", link(["groups"])]] }),
      el("div", { key: "figures" }, figures([
        ["Lag", lag(data)],
        ["Behind", behind(data)],
        ["State", data.state],
        ["Members", count(data.members)],
        ["Assignor", data.protocol || "none"],
        ["Generation", count(data.generation)],
      ])),
      data.behind_start > 0 && lost(data, bootstrap),
      trend(data.trend.points),
      partitions(data, query),
      members(data, bootstrap),
    ];
  },
};

const name = (row) => `${row.topic}/${row.partition}`;

function lost(data, bootstrap) {
  return el("div", { class: "problem critical", key: "lost", role: "alert" },
    el("p", { class: "what" }, `Records were lost to this group in ${count(data.behind_start)} of its partitions.`),
    el("p", {}, "It had committed offsets that retention has deleted since. See what it would go on with, then set it there."),
    command(`dafka groups reset ${quoted(data.group)} --to-earliest --bootstrap ${bootstrap}`));
}

const quoted = (text) => (/^[\w.-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function trend(points) {
  const lags = points.map(([, value]) => (value === null ? null : Number(value)));
  const padded = [...Array(Math.max(0, POINTS - lags.length)).fill(null), ...lags];
  const known = lags.filter((value) => value !== null);
  const most = known.length > 0 ? Math.max(...known) : 0;
  const last = known.at(-1) ?? 0;
  const chart = sparkline(padded, `Lag over the last ${POINTS} seconds: now ${count(last)}, at most ${count(most)}`, { width: 900, height: 112 });
  chart.classList.add("tall");
  return el("figure", { class: "chart", key: "trend" },
    el("figcaption", {}, el("span", {}, "Lag, the last minute"), el("span", {}, `most: ${count(most)}`)), chart);
}

function partitions(data, query) {
  const { items, total, next } = data.partitions_page;
  if (items.length === 0) {
    return section("How far it has read", el("p", { class: "quiet" }, "none: it has committed no offset and has no partition assigned"));
  }
  return section("How far it has read",
    legend("log", "unread"),
    table({
      caption: `How far ${data.group} has read`,
      key: name,
      rows: items,
      columns: [
        { name: "Partition", head: true, of: (row) => [el("a", { href: link(["topics", row.topic]) }, foreign(row.topic)), ` ${row.partition}`] },
        { name: "Read, of what is kept", strip: true, of: progress },
        { name: "Committed", number: true, of: (row) => (row.committed === null ? "no commit" : count(row.committed)) },
        { name: "Next offset", number: true, of: (row) => (row.missing ? tag(`no such ${row.missing}`, "warned") : count(row.end)) },
        { name: "Lag", number: true, of: (row) => (row.missing ? "none" : lag(row)) },
        { name: "Behind", number: true, of: (row) => (row.missing ? "none" : behind(row)) },
        { name: "Committed at", of: (row) => (row.commit_ms ? moment(Number(row.commit_ms), { ago: true }) : "no commit") },
        { name: "Member", of: (row) => (row.member ? foreign(client(data, row.member)) : "nobody") },
      ],
    }),
    next || query.after ? pager({ shown: items.length, total, next, query, what: "partitions" }) : null);
}

/** The strip of what is kept; offsets that are deleted take no room here. */
function progress(row) {
  if (row.missing || row.end === null || row.start === null) return null;
  const start = BigInt(row.start);
  const moved = (offset) => (offset === null ? null : BigInt(offset) - start);
  return strip({ start: 0, end: moved(row.end), until: moved(row.end), read: moved(row.committed) ?? 0n });
}

function client(data, member) {
  return data.member_items.find((item) => item.member_id === member)?.client_id ?? member;
}

function members(data, bootstrap) {
  if (data.member_items.length === 0) {
    return section("Members", empty("Nobody reads now", "The group keeps its offsets, and a consumer that joins goes on from them.",
      [`kcat -b ${bootstrap} -G ${quoted(data.group)} ${data.topics?.map(quoted).join(" ") || "TOPIC"}`]));
  }
  return section("Members", table({
    caption: `Members of ${data.group}`,
    key: (item) => item.member_id,
    rows: data.member_items,
    columns: [
      { name: "Client", head: true, of: (item) => [foreign(item.client_id), " ", item.leader && tag("leader")] },
      { name: "Host", of: (item) => foreign(item.host) },
      { name: "Partitions", number: true, of: (item) => count(item.assigned) },
      { name: "Assigned", of: assigned },
      { name: "Session timeout", number: true, of: (item) => `${item.session_timeout_ms / 1000} s` },
      { name: "Instance", of: (item) => (item.instance_id === null ? "none" : foreign(item.instance_id)) },
    ],
  }));
}

function assigned(item) {
  if (item.assignment === null) return "not a consumer's assignment";
  if (item.assignment.length === 0) return "none";
  return item.assignment.map(({ topic, partitions: numbers }, index) => [index > 0 && "; ", foreign(topic), ` ${numbers.join(", ")}`]);
}
