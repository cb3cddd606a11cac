/**
 * The shapes of the data of a report, as types for the checker; nothing runs here.
 *
 * @typedef {"passed" | "edited" | "blocked" | "failed" | "invalid"} RowStatus
 *
 * @typedef {object} Row What the list says of a row; what is empty is left out.
 * @property {string} [file] its file, if there are several
 * @property {number} line
 * @property {string | number} [id]
 * @property {RowStatus} status
 * @property {number} seconds
 * @property {string} [reason]
 * @property {Record<string, string>} [steps] the steps that did something, each with its status
 * @property {string[]} [flagged]
 * @property {string} [text]
 * @property {string} [block] the id of the block that has its trace
 * @property {number} [index] where in the block
 *
 * @typedef {object} StepCounts
 * @property {string} path
 * @property {boolean} shadow
 * @property {number} ran
 * @property {Record<string, number>} statuses
 * @property {number} edits
 * @property {number} flagged
 * @property {number} seconds
 * @property {number} slowest
 *
 * @typedef {object} Counts
 * @property {number} rows
 * @property {number} seconds
 * @property {Record<string, number>} statuses
 * @property {number} broken
 * @property {number} flagged
 * @property {StepCounts[]} steps
 *
 * @typedef {object} ReportOnly
 * @property {{input: string, texts: boolean, interrupted: boolean}} source
 * @property {{version: string, at: string}} made
 * @property {Counts} counts
 * @property {number[]} slowest places in `rows`
 * @property {Row[]} rows
 *
 * @typedef {import("../../../pictures/page/types.js").WorkflowInfo & ReportOnly} Report
 */

export {};
