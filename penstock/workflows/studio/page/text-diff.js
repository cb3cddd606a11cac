/** The difference of two texts, word by word. */

/** @typedef {{kind: "same" | "removed" | "added", text: string}} Piece */

/** More comparisons than this take too long to wait for; then the middle of the texts is shown as replaced. */
const MOST_COMPARISONS = 4_000_000;

/**
 * Compare two texts.
 *
 * @param {string} before
 * @param {string} after
 * @returns {Piece[]} the pieces in order; those that are not `added` make up `before`, those not `removed` make up `after`
 */
export function textDiff(before, after) {
  const old = words(before);
  const now = words(after);
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head += 1;
  let tail = 0;
  while (tail < old.length - head && tail < now.length - head && old.at(-1 - tail) === now.at(-1 - tail)) tail += 1;
  const middle = compared(old.slice(head, old.length - tail), now.slice(head, now.length - tail));
  return joined([
    { kind: "same", text: old.slice(0, head).join("") },
    ...middle,
    { kind: "same", text: old.slice(old.length - tail).join("") },
  ]);
}

/**
 * Addresses and numbers are one word, so that they are shown as replaced whole.
 *
 * @param {string} text
 */
function words(text) {
  return text.match(/[\p{L}\p{N}_*]+(?:[.@:/*'’-]+[\p{L}\p{N}_*]+)*|\s+|./gsu) ?? [];
}

/**
 * Compare by the longest common subsequence.
 *
 * @param {string[]} old
 * @param {string[]} now
 * @returns {Piece[]}
 */
function compared(old, now) {
  if (old.length * now.length > MOST_COMPARISONS || !old.length || !now.length) {
    return [
      { kind: "removed", text: old.join("") },
      { kind: "added", text: now.join("") },
    ];
  }
  const lengths = commonLengths(old, now);
  const wide = now.length + 1;
  /** @type {Piece[]} */
  const pieces = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      pieces.push({ kind: "same", text: old[i] ?? "" });
      i += 1;
      j += 1;
    } else if (
      j === now.length ||
      (i < old.length && at(lengths, (i + 1) * wide + j) >= at(lengths, i * wide + j + 1))
    ) {
      pieces.push({ kind: "removed", text: old[i] ?? "" });
      i += 1;
    } else {
      pieces.push({ kind: "added", text: now[j] ?? "" });
      j += 1;
    }
  }
  return pieces;
}

/**
 * @param {string[]} old
 * @param {string[]} now
 * @returns {Uint32Array} how long the longest common subsequence is from each pair of places on
 */
function commonLengths(old, now) {
  const wide = now.length + 1;
  const lengths = new Uint32Array((old.length + 1) * wide);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      lengths[i * wide + j] =
        old[i] === now[j]
          ? at(lengths, (i + 1) * wide + j + 1) + 1
          : Math.max(at(lengths, (i + 1) * wide + j), at(lengths, i * wide + j + 1));
    }
  }
  return lengths;
}

/**
 * @param {Uint32Array} lengths
 * @param {number} place
 */
function at(lengths, place) {
  return lengths[place] ?? 0;
}

/**
 * Join neighbours of one kind.
 *
 * @param {Piece[]} pieces
 * @returns {Piece[]}
 */
function joined(pieces) {
  /** @type {Piece[]} */
  const result = [];
  for (const piece of pieces) {
    const last = result.at(-1);
    if (last?.kind === piece.kind) last.text += piece.text;
    else if (piece.text) result.push({ ...piece });
  }
  return result;
}
