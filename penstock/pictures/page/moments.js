/** A run as a row of moments, to be shown one after another: a step starts, a chunk arrives, a step ends. */

/** @typedef {import("./types.js").Trace} Trace */
/** @typedef {import("./types.js").Span} Span */
/** @typedef {import("./types.js").StreamChunk} StreamChunk */

/**
 * @typedef {object} Moment
 * @property {number} at seconds since the start of the run
 * @property {"start" | "end" | "chunk"} what
 * @property {Span} span the span that starts or ends, or whose chunk it is
 * @property {number} [index] the number of the chunk, from 0
 */

/**
 * @param {Trace} trace
 * @returns {Moment[]} in the order of time; a span starts after its parent, and ends before it
 */
export function momentsOf(trace) {
  const known = new Set(trace.spans.map((span) => span.id));
  /** @type {Map<number | null, Span[]>} */
  const children = new Map();
  for (const span of trace.spans) {
    const parent = span.parent !== null && known.has(span.parent) ? span.parent : null;
    children.set(parent, [...(children.get(parent) ?? []), span]);
  }
  return merged((children.get(null) ?? []).map((span) => around(span, children)));
}

/**
 * @param {Span} span
 * @param {Map<number | null, Span[]>} children
 * @returns {Moment[]} those of a span and of all in it
 */
function around(span, children) {
  const chunks = (span.chunks ?? []).map((chunk, index) => moment("chunk", chunk.at, span, index));
  const inside = merged([chunks, ...(children.get(span.id) ?? []).map((child) => around(child, children))]);
  if (span.kind === "run") return inside;
  if (span.status === "skipped") return [...inside, moment("end", span.at, span)];
  const last = inside[inside.length - 1]?.at ?? span.at;
  return [moment("start", span.at, span), ...inside, moment("end", Math.max(span.at + span.seconds, last), span)];
}

/**
 * @param {Moment["what"]} what
 * @param {number} at
 * @param {Span} span
 * @param {number} [index]
 * @returns {Moment}
 */
function moment(what, at, span, index) {
  return index === undefined ? { at, what, span } : { at, what, span, index };
}

/**
 * @param {Moment[][]} rows each in the order of time
 * @returns {Moment[]} all in the order of time; at the same time, the earlier row goes first
 */
function merged(rows) {
  return rows
    .flatMap((moments, row) => moments.map((one) => ({ row, one })))
    .sort((a, b) => a.one.at - b.one.at || a.row - b.row)
    .map(({ one }) => one);
}

/**
 * @param {Moment[]} moments
 * @param {number} index how many of them have passed
 * @returns {Set<string>} the starts and ends of spans that have passed, as marks name them: `start ID`, `end ID`
 */
export function passedAt(moments, index) {
  const past = moments.slice(0, index).filter((moment) => moment.what !== "chunk");
  return new Set(past.map(({ what, span }) => `${what} ${span.id}`));
}

/**
 * @typedef {object} StreamState
 * @property {string} taken all that has come in
 * @property {number} held how many characters of it are held
 * @property {string} left all that has left
 * @property {StreamChunk} chunk the last one
 */

/**
 * @param {Span} span that of a stream
 * @param {number} count how many of its chunks have passed, at least 1
 * @returns {StreamState}
 */
export function streamAt(span, count) {
  const past = (span.chunks ?? []).slice(0, count);
  const chunk = past[past.length - 1] ?? { at: span.at, in: "", held: 0, out: "" };
  return {
    taken: past.map((one) => one.in).join(""),
    held: chunk.held,
    left: past.map((one) => one.out).join(""),
    chunk,
  };
}
