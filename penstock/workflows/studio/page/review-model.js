/** The rows to label as values: which one is shown, and which one comes next. */

/** @typedef {{role: string, text: string}} ReviewText */
/** @typedef {{step?: string, score?: number | null, flagged?: boolean, found?: string}} Reason */
/** @typedef {{number: number, id: unknown, label: boolean | string | null, texts: ReviewText[], review: Reason}} ReviewRow */

/**
 * Return the first row without a label behind a row, from the top again at the end; -1 if all have one.
 *
 * @param {ReviewRow[]} rows
 * @param {number} from
 * @returns {number}
 */
export function nextUnlabelled(rows, from) {
  for (let step = 1; step <= rows.length; step += 1) {
    const at = (from + step) % rows.length;
    if (rows[at].label === null) return at;
  }
  return -1;
}

/**
 * Return how many rows have a label.
 *
 * @param {ReviewRow[]} rows
 * @returns {number}
 */
export function labelled(rows) {
  return rows.filter((row) => row.label !== null).length;
}

/**
 * Return why a row was chosen, in words.
 *
 * @param {ReviewRow} row
 * @returns {string}
 */
export function reasonOf(row) {
  const { step, score, flagged, found } = row.review;
  const words = [];
  if (flagged !== undefined) words.push(flagged ? `flagged${found ? ` as ${found}` : ""}` : "let pass");
  if (typeof score === "number") words.push(`score ${score.toFixed(3)}${step ? ` of ${step}` : ""}`);
  return words.join(", ");
}

/**
 * Return the label or the move that a key stands for; undefined for other keys.
 *
 * @param {string} key
 * @returns {boolean | null | "next" | "back" | undefined}
 */
export function meaningOf(key) {
  const keys = new Map(
    /** @type {[string, boolean | null | "next" | "back"][]} */ ([
      ["y", true],
      ["1", true],
      ["n", false],
      ["0", false],
      ["x", null],
      ["ArrowRight", "next"],
      ["s", "next"],
      ["ArrowLeft", "back"],
      ["u", "back"],
    ]),
  );
  return keys.get(key);
}
