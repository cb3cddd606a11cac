/** The rows of a file in a table, of which only those that are seen are in the page: so a hundred thousand scroll well. */

import { html, nothing } from "lit-html";
import { count, duration, visible } from "penstock/format.js";
import { filtered } from "./rows-model.js";
import { MOST_ROWS, STATUSES } from "./run-model.js";
import { cut } from "./words.js";

/** @typedef {import("./types.js").Row} Row */
/** @typedef {import("./run-model.js").Run} Run */

/** @typedef {import("./rows-model.js").RowsState} RowsState */

const ROW = 32;
const BEYOND = 12;

/**
 * @param {Run} run
 * @param {RowsState} state
 * @param {{change: (patch: Partial<RowsState>) => void, open: (row: Row) => void, chosen?: number | null, results: string | null}} actions
 */
export function rowsView(run, state, { change, open, results }) {
  const rows = filtered(run.rows, state);
  const first = Math.max(0, Math.floor(state.top / ROW) - BEYOND);
  const ids = run.rows.some((row) => row.id !== null);
  const columns = ids ? 6 : 5;
  const last = Math.min(rows.length, Math.ceil((state.top + state.height) / ROW) + BEYOND);
  return html`<div class="rows">
    <div class="filter-bar">
      ${statusFilter(run, state, change)}
      <input type="search" placeholder="Filter rows" aria-label="Filter rows" .value=${state.query}
        @input=${(/** @type {Event & {currentTarget: HTMLInputElement}} */ event) => change({ query: event.currentTarget.value, top: 0 })}>
      <span class="count" role="status">${count(rows.length, "row")}</span>
      ${results ? html`<a class="button quiet small" href=${results} download>Download results</a>` : nothing}
    </div>
    ${leftOut(run)}
    <div class="scroll" tabindex="0" role="group" aria-label="Rows" @scroll=${scrolled}>
      <table aria-rowcount=${rows.length + 1}>
        <thead><tr><th scope="col" class="line">line</th>${ids ? html`<th scope="col" class="id">id</th>` : nothing}<th scope="col">text</th><th scope="col" class="status">verdict</th><th scope="col" class="why">why</th><th scope="col" class="number">time</th></tr></thead>
        <tbody>
          <tr class="spacer" aria-hidden="true"><td colspan=${columns} style="height:${first * ROW}px"></td></tr>
          ${rows.slice(first, last).map((row, index) => rowView(row, first + index, ids, open))}
          <tr class="spacer" aria-hidden="true"><td colspan=${columns} style="height:${(rows.length - last) * ROW}px"></td></tr>
        </tbody>
      </table>
    </div>
  </div>`;

  /** @param {Event & {currentTarget: HTMLElement}} event */
  function scrolled({ currentTarget }) {
    change({ top: currentTarget.scrollTop, height: currentTarget.clientHeight });
  }
}

/** @param {Run} run */
function leftOut(run) {
  const missing =
    (run.stored?.file?.left_out ?? 0) - (run.rows.length - (run.stored?.file?.rows.length ?? run.rows.length));
  if (run.rows.length >= MOST_ROWS)
    return html`<p class="none">The table shows the first ${MOST_ROWS.toLocaleString("en")} rows; all are counted.</p>`;
  if (missing > 0)
    return html`<p class="none">${count(missing, "row")} that passed unchanged or came later are not kept; all are counted.</p>`;
  return nothing;
}

/**
 * @param {Run} run
 * @param {RowsState} state
 * @param {(patch: Partial<RowsState>) => void} change
 */
function statusFilter(run, state, change) {
  const known = Object.entries(run.counts).filter(([, number]) => number > 0);
  return html`<div class="filters" role="group" aria-label="Filter by verdict">
    ${[["", run.done], ...known].map(
      ([
        status,
        number,
      ]) => html`<button type="button" class="filter" data-tone=${STATUSES[String(status)]?.tone ?? "all"}
      aria-pressed=${state.status === status ? "true" : "false"} @click=${() => change({ status: String(status), top: 0 })}>
      ${STATUSES[String(status)]?.word ?? "All"} <span class="count">${Number(number).toLocaleString("en")}</span></button>`,
    )}
  </div>`;
}

/**
 * @param {Row} row
 * @param {number} index
 * @param {boolean} ids whether the table shows the rows' own ids
 * @param {(row: Row) => void} open
 */
function rowView(row, index, ids, open) {
  const { word, tone } = STATUSES[row.status] ?? { word: row.status, tone: "skipped" };
  const steps = row.step ? [row.step] : Object.keys(row.edits ?? {});
  const edits = Object.values(row.edits ?? {}).reduce((sum, number) => sum + number, 0);
  const why =
    row.reason ??
    row.error ??
    (edits ? count(edits, "edit") : row.flagged?.length ? `flagged ${row.flagged.join(", ")}` : "");
  const said = [steps.join(", "), why].filter(Boolean).join(": ");
  return html`<tr aria-rowindex=${index + 2}>
    <td><button type="button" class="link" aria-label="Open row ${row.line}" @click=${() => open(row)}>${row.line}</button></td>
    ${ids ? html`<td class="id" title=${visible(String(row.id ?? ""))}>${visible(String(row.id ?? ""))}</td>` : nothing}
    <td class="row-text" dir="auto" title=${visible(row.text ?? "")}>${visible(cut(row.text ?? "", 200))}</td>
    <td><span class="pill" data-tone=${tone}>${word}</span></td>
    <td class="why" title=${visible(said)}>${visible(cut(said, 200))}</td>
    <td class="number">${duration(row.seconds ?? 0)}</td>
  </tr>`;
}
