// The frame: which view the address asks for, what is loaded and followed for it, and the switches.

import { link, read } from "./address.js";
import { Live, get } from "./api.js";
import { clients } from "./clients.js";
import { el, morph } from "./dom.js";
import { count, zone } from "./format.js";
import { group } from "./group.js";
import { groups } from "./groups.js";
import { mesh } from "./mesh.js";
import { now } from "./now.js";
import { head } from "./parts.js";
import { records } from "./records.js";
import { topic } from "./topic.js";
import { topics } from "./topics.js";

const SECONDS_KEPT = 60;
const SLOW_MS = 300;
const TRY_AGAIN_MS = 3000;
const AGAIN_SECONDS = 2;
const VIEWS = [["now", "Now"], ["topics", "Topics"], ["groups", "Groups"], ["mesh", "Mesh"], ["clients", "Clients"]];

const at = (id) => document.getElementById(id);

/** What all views may know besides their own data. */
const known = {
  overview: null,
  history: Array(SECONDS_KEPT).fill(null),
  bootstrap: "127.0.0.1:9092",
};
const here = { view: null, data: null, problem: null, load: null, again: 0, path: null };
const live = new Live({ receive, changed: connection });

function viewOf({ path }) {
  if (path.length === 0 || (path.length === 1 && path[0] === "now")) return now;
  if (path.length === 1) return { topics, groups, mesh, clients }[path[0]] ?? null;
  if (path[0] === "topics" && path.length === 2) return topic;
  if (path[0] === "topics" && path.length === 3 && path[2] === "records") return records;
  return path[0] === "groups" && path.length === 2 ? group : null;
}

/** Load and show what the address asks for. */
async function arrive() {
  const address = read();
  const path = JSON.stringify(address.path);
  const moved = path !== here.path;
  here.load?.abort();
  const load = new AbortController();
  clearTimeout(here.again);
  Object.assign(here, { load, path, view: viewOf(address), problem: null });
  if (moved) Object.assign(here, { data: null });
  at("main").setAttribute("aria-busy", "true");
  document.title = `${here.view?.title(address) ?? "Not found"} · Dafka`;
  frame();
  const slow = setTimeout(() => here.data === null && show([el("p", { class: "quiet", role: "status" }, "Not loaded yet …")]), SLOW_MS);
  try {
    if (here.view) {
      const data = await here.view.load(address, (...what) => get(...what, load.signal), moved);
      if (load.signal.aborted) return;
      here.data = data;
      live.follow(here.view.stream(data, address));
    }
  } catch (problem) {
    if (load.signal.aborted) return;
    here.problem = problem;
    if (problem.status === 0 || problem.status === 503) here.again = setTimeout(arrive, TRY_AGAIN_MS);
  } finally {
    clearTimeout(slow);
  }
  draw();
  at("main").dataset.shown = location.hash;
  at("main").removeAttribute("aria-busy");
  if (moved && !first) focusHeading();
  if (here.data !== null && here.problem === null) here.view?.drawn?.(address, moved);
  first = false;
}

// A page that was just opened leaves the focus where the browser has it.
let first = true;

function focusHeading() {
  window.scrollTo(0, 0);
  at("main").querySelector("h1")?.focus({ preventScroll: true });
}

function draw() {
  const address = read();
  if (here.problem) show(failed(here.problem));
  else if (here.view === null) show([head("Nothing is here"), el("p", {}, el("a", { href: "#/now" }, "What is going on now"))]);
  else if (here.data !== null) show(here.view.render(here.data, address, known));
}

/** Bring what is shown to these nodes; what stays keeps the focus. */
function show(nodes) {
  morph(at("main"), el("main", {}, nodes));
}

function failed(problem) {
  return [
    head(problem.title ?? "This page failed"),
    el("div", { class: "notice", role: "alert" },
      el("p", {}, problem.message), problem.nextStep && el("p", {}, problem.nextStep),
      el("button", { type: "button", onclick: arrive }, "Try again")),
  ];
}

function receive(name, message) {
  if (name === "now") {
    const before = known.overview;
    known.overview = { ...before, ...message.overview };
    // A list has no row yet for what is new.
    const more = (what) => before && before[what] !== known.overview[what];
    if ((here.view === topics && more("topics")) || (here.view === groups && more("groups"))) arrive();
    if (message.overview?.problems || message.problems) frame();
  }
  if (name === "failed") {
    live.follow(null);
    here.problem = { title: "It has gone", message: message.detail, nextStep: message.next_step };
  } else if (here.data !== null) {
    here.view.apply(here.data, name, message);
  }
  draw();
}

/** Views at the side, with the one that is shown and how many things need a look. */
function frame() {
  const { path } = read();
  const current = path[0] ?? "now";
  const wrong = known.overview?.problems;
  const tallies = { now: wrong ? wrong.critical + wrong.warning : 0, topics: known.overview?.topics, groups: known.overview?.groups };
  const tally = (view) => {
    if (!tallies[view]) return null;
    return view === "now"
      ? el("span", { class: "tally wrong" }, count(tallies.now), el("span", { class: "unseen" }, " things to look at"))
      : el("span", { class: "tally" }, count(tallies[view]));
  };
  morph(at("views"), el("nav", {}, el("ul", {}, VIEWS.map(([view, text]) =>
    el("li", { key: view }, el("a", { href: link([view]), "aria-current": view === current ? (path.length > 1 ? "true" : "page") : false }, text, " ", tally(view)))))));
}

let lost = false;

function connection(state) {
  const shown = at("connection");
  shown.dataset.state = state;
  const texts = { live: "Live", paused: "Paused", lost: "No answer, trying again" };
  if (shown.textContent !== texts[state]) shown.textContent = texts[state];
  // What was missed meanwhile is loaded once the server is back.
  if (state === "live" && lost && live.source !== null) {
    lost = false;
    if (here.view !== records) arrive();
  }
  if (state === "lost") lost = true;
}

function remembered(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // Where nothing may be kept, a switch holds until the page is closed.
  }
}

/** What a switch says: its name where there is room, its state, and what it does for those who hear it. */
function say(button, name, state, does) {
  morph(button, el("button", {}, el("span", { class: "roomy" }, name), state, el("span", { class: "unseen" }, does)));
}

function switches() {
  const pause = at("pause");
  const said = () => {
    say(pause, "", live.paused ? "Resume" : "Pause", " live updates");
  };
  pause.onclick = () => {
    live.pause(!live.paused);
    said();
    if (!live.paused && here.view !== records) arrive();
  };
  said();

  zone.utc = remembered("zone") === "utc";
  const button = at("zone");
  const times = () => say(button, "Times: ", zone.utc ? "UTC" : "local", zone.utc ? ", show local" : ", show UTC");
  button.onclick = () => {
    zone.utc = !zone.utc;
    remember("zone", zone.utc ? "utc" : "local");
    times();
    draw();
  };
  times();

  const themes = ["system", "light", "dark"];
  const theme = (name) => {
    if (name === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    say(at("theme"), "Colours: ", name === "system" ? "auto" : name, ", change");
  };
  let chosen = themes.includes(remembered("theme")) ? remembered("theme") : "system";
  at("theme").onclick = () => {
    chosen = themes[(themes.indexOf(chosen) + 1) % themes.length];
    remember("theme", chosen);
    theme(chosen);
  };
  theme(chosen);
  at("skip").onclick = (event) => {
    event.preventDefault();
    at("main").focus();
  };
}

/** A point of the last minute's line each second, also in seconds in which nothing has changed. */
function tick() {
  if (live.source?.readyState !== EventSource.OPEN) return;
  known.history = [...known.history, known.overview?.rates?.records_in ?? null].slice(-SECONDS_KEPT);
  seconds += 1;
  if (here.view?.again && here.data && seconds % AGAIN_SECONDS === 0) again();
  if (here.view === now) draw();
}

let seconds = 0;

async function again() {
  const { view, data, load } = here;
  try {
    const more = await view.again((...what) => get(...what, load.signal));
    if (here.data === data) Object.assign(data, more);
  } catch {
    // The stream notices it, too, and says so.
  }
}

async function start() {
  switches();
  frame();
  window.addEventListener("hashchange", arrive);
  window.addEventListener("redraw", draw);
  setInterval(tick, 1000);
  await arrive();
  try {
    const [overview, mesh] = await Promise.all([get(["overview"]), get(["mesh"])]);
    known.overview = { ...overview, ...known.overview };
    known.bootstrap = mesh.gateways.find((gateway) => gateway.this)?.listeners[0] ?? known.bootstrap;
    frame();
    draw();
  } catch {
    // The view has said what is wrong.
  }
}

start();
