/** The list of rows of a report: search, choices, and a page of rows. */

import { html, nothing } from "lit-html";
import { count, duration, visible } from "penstock/format.js";
import { rowName } from "report/overview.js";
import { addressOf, chosen } from "report/rows.js";

/** @typedef {import("./types.js").Row} Row */
/** @typedef {import("./rows.js").Choice} Choice */

const PAGE = 100;

/**
 * @param {Row[]} rows
 * @param {Choice & {pages: number}} choice pages: how many pages of rows are shown
 * @param {(change: Partial<Choice & {pages: number}>) => void} onChange
 */
export function rowList(rows, choice, onChange) {
  const found = chosen(rows, choice);
  const shown = found.slice(0, choice.pages * PAGE);
  return html`<section class="rows" aria-label="Rows">
    <div class="choice">
      <h2>${count(found.length, "row")}${described(choice)}</h2>
      <input type="search" placeholder="Search rows" aria-label="Search rows" .value=${choice.query}
        aria-keyshortcuts="/" @keydown=${(/** @type {KeyboardEvent} */ event) => event.key === "Enter" && found[0] && location.assign(addressOf(found[0]))}
        @input=${(/** @type {Event & {target: HTMLInputElement}} */ event) => onChange({ query: event.target.value, pages: 1 })}>
      <label>order <select .value=${choice.order} @change=${(
        /** @type {Event & {target: HTMLSelectElement}} */ event,
      ) => onChange({ order: event.target.value === "slowest" ? "slowest" : "line", pages: 1 })}>
        <option value="line">by line</option><option value="slowest">slowest first</option>
      </select></label>
      ${
        choice.status || choice.step || choice.query
          ? html`<button type="button" @click=${() => onChange({ status: "", step: "", query: "", pages: 1 })}>Show all</button>`
          : nothing
      }
    </div>
    <ol class="row-list">${shown.map(rowItem)}</ol>
    ${
      shown.length < found.length
        ? html`<button type="button" class="more" @click=${() => onChange({ pages: choice.pages + 1 })}>
          Show ${Math.min(PAGE, found.length - shown.length)} more of ${(found.length - shown.length).toLocaleString("en")}</button>`
        : nothing
    }
  </section>`;
}

/** @param {Choice} choice */
function described({ status, step }) {
  return `${status ? `, ${status}` : ""}${step ? `, in which ${visible(step)} did something` : ""}`;
}

/** @param {Row} row */
function rowItem(row) {
  return html`<li data-status=${row.status}><a href=${addressOf(row)}>
    <span class="row-name">${rowName(row)}</span>
    <span class="status">${row.status}</span>
    <span class="why">${why(row)}</span>
    <span class="time">${duration(row.seconds)}</span>
  </a></li>`;
}

/** @param {Row} row */
function why(row) {
  const steps = Object.entries(row.steps ?? {}).map(([path, status]) => `${visible(path)} ${status}`);
  const said = [
    row.reason && visible(row.reason),
    row.flagged?.length ? `flagged: ${row.flagged.map(visible).join(", ")}` : "",
  ];
  return html`${said.filter(Boolean).join(" · ")} <span class="note">${steps.join(", ")}</span>
    ${row.text === undefined ? nothing : html`<span class="row-text" dir="auto">${visible(row.text)}</span>`}`;
}
