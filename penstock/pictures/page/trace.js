/** Questions to a trace that need no page: what a span says, and how deep it stands. */

import { count, duration } from "penstock/format.js";

/** @typedef {import("./types.js").Trace} Trace */
/** @typedef {import("./types.js").Span} Span */

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
