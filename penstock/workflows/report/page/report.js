/** The page of a report: the overview first; a row of the list opens its run, laid over the picture. */

import { html, nothing, render } from "lit-html";
import { readData, takePicture } from "penstock/data.js";
import { duration, visible } from "penstock/format.js";
import { searchOnSlash } from "penstock/search-key.js";
import { View } from "penstock/view.js";
import { rowList } from "report/list.js";
import { countMarks, kept, leftOut, rowName, slowest, stepTable, verdicts } from "report/overview.js";
import { ALL, addressOf, chosen } from "report/rows.js";
import { Runs } from "report/unpack.js";

/** @typedef {import("./types.js").Row} Row */
/** @typedef {import("./types.js").Report} Report */

const report = /** @type {Report} */ (readData("data"));
const { host, svg } = takePicture();
const runs = new Runs(readData);
const choice = { ...ALL, pages: 1 };
const overviewMarks = countMarks(report.counts.steps);
/** @type {Row | null} the row that is open */
let open = null;
let scrolled = 0;
let ready = false;
const view = new View(svg, report, show);

function show() {
  if (ready) render(open ? rowPage(open) : overviewPage(), host);
}

/** @param {Partial<typeof choice>} change */
function choose(change) {
  Object.assign(choice, change);
  show();
}

function overviewPage() {
  return html`<header><h1>Report: ${visible(report.name)}</h1><p class="note">${report.stage} · ${visible(report.source.input)}</p>${leftOut(report)}</header>
    <main class="overview">
      <div class="figures">
        ${verdicts(report, choice.status, (status) => choose({ status, pages: 1 }))}
        ${stepTable(report, choice.step, (step) => choose({ step, pages: 1 }))}
        ${slowest(report)}
      </div>
      <figure class="whole">${view.picture.element}</figure>
      ${rowList(report.rows, choice, choose)}
      ${kept(report)}
    </main>`;
}

/** @param {Row} row */
function rowPage(row) {
  const rows = chosen(report.rows, choice);
  const at = rows.indexOf(row);
  return html`<header>
      <nav class="buttons" aria-label="Rows"><a class="button" href="#">Overview</a>${neighbour(rows[at - 1], "Previous")}${neighbour(rows[at + 1], "Next")}</nav>
      <h1>${rowName(row)}: <span class="status" data-status=${row.status}>${row.status}</span> in ${duration(row.seconds)}</h1>
      ${view.tools()}
    </header>
    <main>
      ${row.reason ? html`<p class="reason">${visible(row.reason)}</p>` : nothing}
      ${row.text === undefined ? nothing : html`<p class="reason text" dir="auto">${visible(row.text)}</p>`}
      ${row.block === undefined ? html`<p class="reason note">${withoutTrace(row)}</p>` : nothing}
      ${view.template()}
    </main>`;
}

/** @param {Row} row */
function withoutTrace(row) {
  return row.status === "invalid"
    ? "The row is malformed, so nothing ran."
    : "The file has no room for the steps of this row.";
}

/**
 * @param {Row | undefined} row
 * @param {string} label
 */
function neighbour(row, label) {
  return row ? html`<a class="button" href=${addressOf(row)}>${label}</a>` : nothing;
}

/** Show what the address says: a row, or the overview where the reader has left it. */
async function follow() {
  const address = location.hash;
  const wanted = report.rows.find((row) => addressOf(row) === address) ?? null;
  if (!open && wanted) scrolled = scrollY;
  const ran = wanted ? await runs.of(wanted) : null;
  if (location.hash !== address) return; // the reader has gone on
  open = wanted;
  view.selected = null;
  view.show(ran?.trace ?? null, ran?.marks ?? null);
  if (!open) view.picture.mark({ paths: overviewMarks });
  view.picture.fit();
  scrollTo(0, open ? 0 : scrolled);
  document.title = open ? rowName(open) : `Report: ${report.name}`;
}

view.picture.onSelect = (path) =>
  open ? view.select(path, { reveal: false }) : choose({ step: stepWith(path), pages: 1 });

/** @param {string | null} path */
function stepWith(path) {
  return report.counts.steps.some((step) => step.path === path) ? (path ?? "") : "";
}

ready = true;
window.addEventListener("hashchange", follow);
searchOnSlash();
await follow();
