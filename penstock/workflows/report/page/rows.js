/** Choosing, sorting and finding rows of a report. */

import { visible } from "penstock/format.js";

/** @typedef {import("./types.js").Row} Row */

/**
 * @typedef {object} Choice
 * @property {string} query words of which each must be found
 * @property {string} status a status, `flagged`, or empty for all
 * @property {string} step the path of a step that did something, or empty for all
 * @property {"line" | "slowest"} order
 */

/** @type {Readonly<Choice>} */
export const ALL = { query: "", status: "", step: "", order: "line" };

/**
 * @param {Row[]} rows in the order of their lines
 * @param {Choice} choice
 * @returns {Row[]}
 */
export function chosen(rows, { query, status, step, order }) {
  const wanted = query.toLowerCase().split(/\s+/).filter(Boolean);
  const found = rows.filter(
    (row) => hasStatus(row, status) && (step === "" || row.steps?.[step] !== undefined) && hasWords(row, wanted),
  );
  return order === "slowest" ? found.sort((a, b) => b.seconds - a.seconds) : found;
}

/**
 * @param {Row} row
 * @param {string} status
 */
function hasStatus(row, status) {
  if (status === "") return true;
  return status === "flagged" ? (row.flagged?.length ?? 0) > 0 : row.status === status;
}

/**
 * @param {Row} row
 * @param {string[]} wanted
 */
function hasWords(row, wanted) {
  if (wanted.length === 0) return true;
  const said = [
    row.file,
    row.line,
    row.id,
    row.status,
    row.reason,
    row.text,
    ...(row.flagged ?? []),
    ...Object.keys(row.steps ?? {}),
  ];
  const all = said
    .filter((one) => one !== undefined)
    .join("\n")
    .toLowerCase();
  return wanted.every((word) => all.includes(word));
}

/**
 * @param {Row} row
 * @returns {string} the end of the address of the row's page: its line, and its file if there are several
 */
export function addressOf({ file, line }) {
  return file === undefined ? `#line=${line}` : `#line=${line}&file=${encodeURIComponent(visible(file))}`;
}
