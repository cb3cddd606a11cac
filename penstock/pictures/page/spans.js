/** Where edits stand in a text before and after them. Positions are code points, as in Python. */

/** @typedef {import("./types.js").Edit} Edit */
/** @typedef {import("./types.js").SpanText} SpanText */
/** @typedef {{start: number, end: number, kind: string}} Place */

/**
 * Cut a text at marked places.
 *
 * @param {string} text
 * @param {Place[]} places sorted and disjoint, in code points; what is outside the text is cut off
 * @returns {{text: string, kind: string}[]} the pieces in order; `kind` is empty where nothing is marked
 */
export function segmentsOf(text, places) {
  const points = Array.from(text);
  /** @type {{text: string, kind: string}[]} */
  const pieces = [];
  let at = 0;
  for (const { start, end, kind } of places) {
    const from = Math.min(Math.max(start, at), points.length);
    const to = Math.min(Math.max(end, from), points.length);
    if (from > at) pieces.push({ text: points.slice(at, from).join(""), kind: "" });
    if (to > from) pieces.push({ text: points.slice(from, to).join(""), kind });
    at = to;
  }
  if (at < points.length) pieces.push({ text: points.slice(at).join(""), kind: "" });
  return pieces;
}

/**
 * What differs between two texts, as one place in each: all but their common start and end.
 *
 * @param {string} before
 * @param {string} after
 * @returns {{before: Place[], after: Place[]}}
 */
export function changeOf(before, after) {
  const [old, made] = [Array.from(before), Array.from(after)];
  const most = Math.min(old.length, made.length);
  let start = 0;
  while (start < most && old[start] === made[start]) start++;
  let same = 0;
  while (same < most - start && old[old.length - 1 - same] === made[made.length - 1 - same]) same++;
  const place = (/** @type {string[]} */ points) => ({ start, end: points.length - same, kind: "replace" });
  return { before: [place(old)], after: [place(made)] };
}

/**
 * Cut what has come in of a stream where its last chunk begins, and where that begins which is held.
 *
 * @param {string} taken all that has come in
 * @param {number} added how many characters (UTF-16) of it the last chunk had
 * @param {number} held how many code points of it are held
 * @returns {{text: string, added: boolean, held: boolean}[]}
 */
export function streamPieces(taken, added, held) {
  const from = taken.length - added;
  const kept = Array.from(taken)
    .slice(0, Math.max(0, Array.from(taken).length - held))
    .join("").length;
  const cuts = [0, Math.min(from, kept), Math.max(from, kept), taken.length];
  return cuts.slice(1).flatMap((end, index) => {
    const start = cuts[index] ?? 0;
    return end > start ? [{ text: taken.slice(start, end), added: start >= from, held: start >= kept }] : [];
  });
}

/**
 * Return the places of a step's edits in a text before and after it.
 *
 * @param {Pick<SpanText, "message" | "part">} entry
 * @param {Edit[]} edits of all messages
 * @returns {{before: Place[], after: Place[]}}
 */
export function placesOf(entry, edits) {
  const own = edits
    .filter((edit) => edit.field === "text" && edit.message === entry.message && edit.part === entry.part)
    .sort((a, b) => a.start - b.start || a.end - b.end);
  let moved = 0;
  const after = own.map(({ start, end, kind, replacement }) => {
    const length = Array.from(replacement).length;
    const place = { start: start + moved, end: start + moved + length, kind };
    moved += length - (end - start);
    return place;
  });
  return { before: own.map(({ start, end, kind }) => ({ start, end, kind })), after };
}
