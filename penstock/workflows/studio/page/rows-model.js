/** What the table of a file shows: which rows are chosen, and how far it is scrolled. */

/** @typedef {import("./types.js").Row} Row */

/**
 * @typedef {object} RowsState
 * @property {string} status "" for all
 * @property {string} query
 * @property {number} top how far the table is scrolled, in pixels
 * @property {number} height how much of it is seen
 */

/** @returns {RowsState} */
export function newRowsState() {
  return { status: "", query: "", top: 0, height: 400 };
}

/**
 * @param {Row[]} rows
 * @param {RowsState} state
 */
export function filtered(rows, { status, query }) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!status && words.length === 0) return rows;
  return rows.filter((row) => {
    if (status && row.status !== status) return false;
    const all = `${row.line} ${row.id ?? ""} ${row.text ?? ""} ${row.status} ${row.step ?? ""} ${row.reason ?? ""} ${row.error ?? ""} ${Object.keys(row.edits ?? {}).join(" ")}`;
    return words.every((word) => all.toLowerCase().includes(word));
  });
}
