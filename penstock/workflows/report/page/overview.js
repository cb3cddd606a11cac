/** The overview of a report: how many rows ended how, what each step did, and which rows took longest. */

import { html, nothing } from "lit-html";
import { count, duration, visible } from "penstock/format.js";
import { addressOf } from "report/rows.js";

/** @typedef {import("./types.js").Report} Report */
/** @typedef {import("./types.js").StepCounts} StepCounts */
/** @typedef {import("./types.js").Row} Row */
/** @typedef {import("../../../pictures/page/types.js").Mark} Mark */

const STATUSES = /** @type {const} */ (["passed", "edited", "blocked", "failed", "invalid"]);

/**
 * @param {Report} report
 * @param {string} chosen the status whose rows are listed
 * @param {(status: string) => void} onChoose
 */
export function verdicts({ counts }, chosen, onChoose) {
  const shown = STATUSES.filter((status) => counts.statuses[status]).map((status) => ({
    status,
    number: counts.statuses[status] ?? 0,
  }));
  const flagged = counts.flagged ? [{ status: "flagged", number: counts.flagged }] : [];
  return html`<ul class="verdicts" aria-label="Rows by verdict">
    ${[{ status: "", number: counts.rows }, ...shown, ...flagged].map(
      ({ status, number }) => html`<li data-status=${status || "all"}>
        <button type="button" aria-pressed=${chosen === status} @click=${() => onChoose(status)}>
          <strong>${number.toLocaleString("en")}</strong> ${status || (number === 1 ? "row" : "rows")}
          <span class="note">${status ? share(number, counts.rows) : nothing}</span>
        </button>
      </li>`,
    )}
  </ul>
  ${counts.broken ? html`<p class="note">${count(counts.broken, "row")} of the blocked only because a step failed.</p>` : nothing}`;
}

/**
 * @param {number} number
 * @param {number} all
 */
function share(number, all) {
  const percent = (number / all) * 100;
  return percent > 0 && percent < 0.1 ? "< 0.1 %" : `${Number(percent.toFixed(1))} %`;
}

const COLUMNS = /** @type {const} */ (["edited", "tripped", "failed"]);

/**
 * @param {Report} report
 * @param {string} chosen the path of the step whose rows are listed
 * @param {(path: string) => void} onChoose
 */
export function stepTable({ counts }, chosen, onChoose) {
  if (counts.steps.length === 0) return nothing;
  return html`<div class="scroll"><table class="steps-table">
    <caption>Steps</caption>
    <thead><tr>
      <th scope="col">step</th><th scope="col">ran</th><th scope="col">edited</th><th scope="col">stopped</th>
      <th scope="col">failed</th><th scope="col">flagged</th><th scope="col">mean</th><th scope="col">slowest</th>
    </tr></thead>
    <tbody>${counts.steps.map(
      (step) => html`<tr>
        <th scope="row"><button type="button" aria-pressed=${chosen === step.path} title="List the rows in which it did something"
          @click=${() => onChoose(chosen === step.path ? "" : step.path)}>${visible(step.path)}</button>
          ${step.shadow ? html`<span class="note">shadow</span>` : nothing}</th>
        <td>${number(step.ran)}</td>
        ${COLUMNS.map((status) => html`<td data-status=${status}>${number(step.statuses[status] ?? 0)}</td>`)}
        <td>${number(step.flagged)}</td>
        <td>${step.ran ? duration(step.seconds / step.ran) : nothing}</td>
        <td>${step.ran ? duration(step.slowest) : nothing}</td>
      </tr>`,
    )}</tbody>
  </table></div>`;
}

/** @param {number} value */
function number(value) {
  return value === 0
    ? html`<span class="none">–</span>`
    : html`<span class="status">${value.toLocaleString("en")}</span>`;
}

/**
 * @param {Report} report
 */
export function slowest({ slowest: places, rows }) {
  const found = places.flatMap((place) => rows[place] ?? []);
  if (found.length < 2) return nothing;
  return html`<section class="slowest"><h2>Slowest rows</h2><ol>${found.map(
    (row) => html`<li><a href=${addressOf(row)}>${rowName(row)}</a> ${duration(row.seconds)}
      <span class="note">${row.status}</span></li>`,
  )}</ol></section>`;
}

/**
 * @param {Row} row
 * @returns {string} such as `line 7 (chat-12)`, or `chats.jsonl, line 7`
 */
export function rowName(row) {
  const line = row.file === undefined ? `line ${row.line}` : `${visible(row.file)}, line ${row.line}`;
  return row.id === undefined ? line : `${line} (${visible(String(row.id))})`;
}

/**
 * How many rows the list leaves out, for the heading of the page; nothing if it has all.
 *
 * @param {Report} report
 */
export function leftOut({ counts, rows }) {
  const left = counts.rows - rows.length;
  if (left <= 0) return nothing;
  return html`<p class="left-out"><strong>The list leaves out ${left.toLocaleString("en")} of ${count(counts.rows, "row")}.</strong> The counts have them.</p>`;
}

/**
 * What the file holds.
 *
 * @param {Report} report
 */
export function kept({ counts, rows, source, made }) {
  const opened = rows.filter((row) => row.block !== undefined).length;
  return html`<footer class="kept note">
    ${source.interrupted ? html`<p><strong>The run was interrupted after ${count(counts.rows, "row")}.</strong></p>` : nothing}
    <p>${count(counts.rows, "row")} of ${visible(source.input)} in ${duration(counts.seconds)}; made ${made.at} by Penstock ${made.version}.
      ${opened < rows.length ? `The steps of ${count(opened, "row")} can be opened.` : nothing}</p>
    <p>${
      source.texts
        ? html`<strong>This file holds texts, including everything that was hidden.</strong>`
        : "This file holds no texts of the rows, only positions, verdicts and times. (--texts keeps texts, too.)"
    }</p>
  </footer>`;
}

/**
 * @param {StepCounts[]} steps
 * @returns {Map<string, Mark>} what the picture shows: how often each step stopped, failed or edited
 */
export function countMarks(steps) {
  return new Map(steps.map((step) => [step.path, countMark(step)]));
}

/**
 * @param {StepCounts} step
 * @returns {Mark}
 */
function countMark({ ran, statuses }) {
  if (ran === 0) return { kind: "skipped", look: "skipped", words: ["never run"] };
  const words = { tripped: "stopped", failed: "failed", edited: "edited" };
  const found = /** @type {(keyof typeof words)[]} */ (Object.keys(words)).filter((status) => statuses[status]);
  if (found[0] === undefined) return { kind: "passed", look: "passed", words: [`${ran.toLocaleString("en")} ran`] };
  const counts = found.map((status) => `${statuses[status]?.toLocaleString("en")} ${words[status]}`);
  return { kind: found[0], look: found[0], words: [counts.join(" · ")] };
}
