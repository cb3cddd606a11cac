/** Which channel is read by which step, and which by none: the table of `penstock coverage`, for a narrow panel. */

import { html, nothing } from "lit-html";
import { visible } from "penstock/format.js";
import { linesOf } from "./coverage-model.js";

/** @typedef {import("./types.js").CoverageTable} CoverageTable */

/** @param {CoverageTable} table */
export function coverageView(table) {
  if (table.steps.length === 0)
    return html`<section><h3>Coverage</h3><p class="none">No step reads texts.</p></section>`;
  return html`<section><h3>Coverage</h3>
    <p class="none">Which steps read which texts. Computed from the plan, as by <code>penstock coverage</code>.</p>
    <table class="coverage"><thead><tr><th scope="col">channel</th><th scope="col">read by</th></tr></thead>
      <tbody>${linesOf(table).map(
        ({ name, title, readers, gaps }) => html`<tr data-unread=${readers.length === 0 ? "true" : nothing}>
          <th scope="row" title=${title}>${name}</th>
          <td>${readers.length === 0 ? html`<span class="none">nobody</span>` : readers.map((reader) => html`<div><b>${reader.reads}</b> ${visible(reader.path)}${reader.conditions ? html` <span class="note">${visible(reader.conditions)}</span>` : nothing}</div>`)}
            ${gaps.map((gap) => html`<div class="gap">${visible(gap)}</div>`)}</td>
        </tr>`,
      )}</tbody></table></section>`;
}
