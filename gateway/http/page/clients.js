// Who is connected, by library and version, and what they ask for.

import { el } from "./dom.js";
import { count, duration, foreign, perSecond, rate } from "./format.js";
import { empty, figures, head, section } from "./parts.js";
import { table } from "./table.js";

export const clients = {
  title: () => "Clients",
  load: (_address, get) => get(["clients"]),
  stream: () => ({ view: "clients" }),

  apply(data, name, message) {
    if (name !== "rows") return;
    const gone = new Set(message.gone ?? []);
    data.items = merged(data.items, message.rows, gone, kind, (key) => !key.startsWith("api:"));
    data.apis = merged(data.apis, message.rows, gone, (api) => `api:${api.api}`, (key) => key.startsWith("api:"));
  },

  render(data, _address, { bootstrap }) {
    return [
      head("Clients"),
      el("div", { key: "figures" }, figures([
        ["Connections", count(data.connections)],
        ["Requests", perSecond(data.apis.reduce((sum, api) => sum + (api.requests ?? 0), 0))],
        ["Refused since the start", count(data.refused)],
      ])),
      data.items.length === 0
        ? empty("Nobody is connected", "A client shows up here as soon as it connects, by its library and version.", [`kcat -b ${bootstrap} -L`])
        : libraries(data.items),
      data.apis.length > 0 && apis(data.apis),
    ];
  },
};

const kind = (item) => `${item.library ?? ""}/${item.version ?? ""}`;

/** Rows with what has changed, without those that are gone, and with those that have come. */
function merged(items, rows, gone, key, mine) {
  const known = new Set(items.map(key));
  const come = Object.entries(rows).filter(([name, row]) => mine(name) && !known.has(name) && Object.keys(row).length > 3);
  return [...items.filter((item) => !gone.has(key(item))).map((item) => Object.assign(item, rows[key(item)])), ...come.map(([, row]) => row)];
}

function libraries(items) {
  return section("Libraries", table({
    caption: "Libraries",
    key: kind,
    rows: items,
    columns: [
      { name: "Library", head: true, of: (item) => (item.library === null ? el("span", { class: "quiet" }, "did not say") : foreign(item.library)) },
      { name: "Version", of: (item) => (item.version === null ? "not said" : foreign(item.version)) },
      { name: "Connections", number: true, of: (item) => count(item.connections) },
      { name: "Addresses", number: true, of: (item) => count(item.hosts) },
      { name: "Requests", number: true, of: (item) => perSecond(item.requests) },
      { name: "Client ids", of: (item) => (item.client_ids.length === 0 ? "none" : item.client_ids.map((id, index) => [index > 0 && ", ", foreign(id)])) },
    ],
  }));
}

function apis(items) {
  return section("What they ask", table({
    caption: "What they ask",
    key: (api) => api.api,
    rows: items,
    columns: [
      { name: "API", head: true, of: (api) => api.api },
      { name: "Requests", number: true, of: (api) => perSecond(api.requests) },
      { name: "Mean time to answer", number: true, of: (api) => (api.mean_seconds === null ? "none" : duration(api.mean_seconds)) },
      { name: "Bytes asked", number: true, of: (api) => rate(api.request_bytes) },
      { name: "Bytes answered", number: true, of: (api) => rate(api.answer_bytes) },
    ],
  }));
}
