/** Questions to a trace that need no page: what a span says, and which mark each step of the picture gets. */

import { count, duration } from "penstock/format.js";

/** @typedef {import("./types.js").Trace} Trace */
/** @typedef {import("./types.js").Span} Span */
/** @typedef {import("./types.js").Mark} Mark */

/**
 * @param {Span} span
 * @returns {string} the outcome in a few words, as at a box: `2 edits`, `1.3 ms`
 */
export function badgeOf(span) {
  if (span.status === "skipped") return "not run";
  const words = [];
  if (span.shadow && span.status !== "tripped") words.push("shadow");
  if (span.status === "tripped") words.push(verdictWord(span));
  if (span.status === "failed") words.push(span.error ?? "failed");
  if (span.edits?.length) words.push(count(span.edits.length, "edit"));
  words.push(duration(span.seconds));
  return words.join(" · ");
}

/** @param {Span} span */
function verdictWord(span) {
  if (span.shadow) return "would stop";
  return span.tripwire?.retry ? "retry" : "stopped";
}

/** The worse of two outcomes is the one to show where a step ran several times. */
const WORST = ["skipped", "passed", "edited", "failed", "tripped"];

/**
 * @param {Span[]} spans
 * @returns {Map<string, Mark>} for each path of a step or branch what happened there; the worst if it ran several times
 */
export function marksOf(spans) {
  /** @type {Map<string, Span[]>} */
  const byPath = new Map();
  for (const span of spans) {
    if (span.path === "") continue;
    const known = byPath.get(span.path);
    if (known) known.push(span);
    else byPath.set(span.path, [span]);
  }
  /** @type {Map<string, Mark>} */
  const marks = new Map();
  for (const [path, own] of byPath) {
    marks.set(path, markOf(own));
    for (const [arm, kind] of armsOf(own)) marks.set(`${path}:${arm}`, { kind });
  }
  return marks;
}

/**
 * @param {Span[]} spans those of one path, at least one
 * @returns {Mark}
 */
function markOf(spans) {
  const ran = spans.filter((span) => span.status !== "skipped");
  const worst = spans.reduce((a, b) => (WORST.indexOf(b.status) > WORST.indexOf(a.status) ? b : a));
  if (ran.length < 2) return { kind: worst.status, badge: badgeOf(worst) };
  const edits = ran.reduce((sum, span) => sum + (span.edits?.length ?? 0), 0);
  const seconds = ran.reduce((sum, span) => sum + span.seconds, 0);
  const words = [`${ran.length}×`, ...(edits ? [count(edits, "edit")] : []), duration(seconds)];
  return { kind: worst.status, badge: words.join(" · ") };
}

/**
 * @param {Span[]} spans
 * @returns {Map<string, "passed" | "skipped">} the arms of a branch by their number, the last one as `otherwise`
 */
function armsOf(spans) {
  /** @type {Map<string, "passed" | "skipped">} */
  const arms = new Map();
  for (const span of spans) {
    for (const [index, arm] of (span.arms ?? []).entries()) {
      const name = arm.label === "otherwise" ? "otherwise" : String(index);
      if (arm.taken || !arms.has(name)) arms.set(name, arm.taken ? "passed" : "skipped");
    }
  }
  return arms;
}

/**
 * @param {Trace} trace
 * @returns {Map<number, number>} how deep each span stands, by its id; the outermost at 0
 */
export function depthsOf(trace) {
  /** @type {Map<number, number>} */
  const depths = new Map();
  for (const span of trace.spans) {
    depths.set(span.id, span.parent === null ? 0 : (depths.get(span.parent) ?? -1) + 1);
  }
  return depths;
}
