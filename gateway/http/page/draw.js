// The two pictures of this page. A log is a strip: its oldest record at the left, its newest at the right,
// what no reader has had yet in the readers' colour. And a line of sixty points.

import { svg } from "./dom.js";

const WIDTH = 240;
const HEIGHT = 36;

/** A share of a range of offsets in percent. Offsets may be beyond 2^53: BigInt until they are small. */
export function share(part, whole) {
  return whole > 0n ? Number((BigInt(part) * 10000n) / BigInt(whole)) / 100 : 0;
}

/**
 * The strip of one log, [start, end), on a ruler from 0 to `until`; `read` is how far a group has come.
 * All are strings or BigInt. The text that says the same stands beside it, so it is hidden from readers of
 * the screen.
 */
export function strip({ start, end, until, read = null }) {
  const [from, to] = [BigInt(start), BigInt(end)];
  const ruler = BigInt(until ?? end);
  const at = (offset) => share(offset, ruler);
  const parts = [svg("rect", { class: "strip-gone", x: "0", y: "7", width: "100%", height: "2" })];
  const width = (a, b) => `${Math.max(b > a ? 1 : 0, at(b) - at(a))}%`;
  if (to > from) {
    parts.push(svg("rect", { class: "strip-log", x: `${at(from)}%`, y: "2", width: width(from, to), height: "12" }));
  }
  if (read !== null && read !== undefined) {
    const mark = BigInt(read) < from ? from : BigInt(read) > to ? to : BigInt(read);
    if (to > mark) {
      parts.push(svg("rect", { class: "strip-unread", x: `${at(mark)}%`, y: "2", width: width(mark, to), height: "12" }));
    }
    parts.push(svg("rect", { class: "strip-reader", x: `calc(${at(mark)}% - 1px)`, y: "0", width: "2", height: "16" }));
  }
  return svg("svg", { class: "strip", "aria-hidden": "true", focusable: "false", width: "100%", height: "16" }, parts);
}

/** How full something is, in percent. */
export function gauge(percent, level = "") {
  const full = Math.max(0, Math.min(100, percent));
  return svg("svg", { class: `strip ${level}`, "aria-hidden": "true", focusable: "false", width: "100%", height: "16" },
    svg("rect", { class: "strip-gone", x: "0", y: "7", width: "100%", height: "2" }),
    svg("rect", { class: "strip-log", x: "0", y: "2", width: `${full}%`, height: "12" }));
}

/**
 * A line of up to sixty points, oldest first; null is a second of which nothing is known, and a gap.
 * `label` says what it shows for those who do not see it.
 */
export function sparkline(points, label, { kind = "unread", width = WIDTH, height = HEIGHT } = {}) {
  const known = points.filter((point) => point !== null && point !== undefined);
  const most = Math.max(1, ...known);
  const step = width / Math.max(1, points.length - 1);
  const place = (point, index) =>
    `${(index * step).toFixed(1)} ${(height - 2 - (point / most) * (height - 5)).toFixed(1)}`;
  const runs = [];
  points.forEach((point, index) => {
    if (point === null || point === undefined) return;
    const before = points[index - 1];
    if (index === 0 || before === null || before === undefined) runs.push([]);
    runs.at(-1).push([point, index]);
  });
  const lines = runs.map((run) => `M${run.map(([point, index]) => place(point, index)).join("L")}`);
  const areas = runs.map((run, number) =>
    `${lines[number]}L${(run.at(-1)[1] * step).toFixed(1)} ${height}L${(run[0][1] * step).toFixed(1)} ${height}Z`);
  return svg("svg", {
    class: `spark ${kind}`, role: "img", "aria-label": label, viewBox: `0 0 ${width} ${height}`,
    preserveAspectRatio: "none", focusable: "false",
  },
  svg("path", { class: "spark-area", d: areas.join("") || "M0 0" }),
  svg("path", { class: "spark-line", d: lines.join("") || "M0 0", "vector-effect": "non-scaling-stroke" }));
}
