/** Texts with what was edited in them marked: before and after. Positions are code points, as in Python. */

import { html, nothing } from "lit-html";
import { visible } from "penstock/format.js";
import { changeOf, placesOf, segmentsOf } from "penstock/spans.js";

/** @typedef {import("./types.js").Edit} Edit */
/** @typedef {import("./types.js").Span} Span */
/** @typedef {import("./types.js").SpanText} SpanText */

/**
 * A text with marked places. What is not printable is shown by a sign.
 *
 * @param {string} text
 * @param {{start: number, end: number, kind: string}[]} places sorted and disjoint, in code points
 */
export function markedText(text, places) {
  const pieces = segmentsOf(text, places).map((piece) =>
    piece.kind === "" ? visible(piece.text) : html`<mark class=${piece.kind}>${visible(piece.text)}</mark>`,
  );
  return html`<p class="text" dir="auto">${pieces}</p>`;
}

/**
 * A text before and after the edits of a step.
 *
 * @param {SpanText} entry
 * @param {Edit[]} edits those of the step; the ones of other messages and parts are ignored
 */
export function beforeAfter(entry, edits) {
  const places = placesOf(entry, edits);
  const { before, after } = places.before.length > 0 ? places : changeOf(entry.before, entry.after);
  const same = entry.before === entry.after;
  return html`<figure class="texts">
    <figcaption>${visible(entry.role)} · ${visible(entry.message)}${entry.part ? ` · part ${entry.part}` : nothing}</figcaption>
    <div><h4>${same ? "unchanged" : "before"}</h4>${markedText(entry.before, before)}</div>
    ${same ? nothing : html`<div><h4>after</h4>${markedText(entry.after, after)}</div>`}
  </figure>`;
}

/**
 * The texts of a span, and as positions those of its edits that are in none of these texts.
 *
 * @param {Span} span
 */
export function textsOf(span) {
  const texts = span.texts ?? [];
  const edits = span.edits ?? [];
  const shown = (/** @type {Edit} */ edit) => texts.some((entry) => placesOf(entry, [edit]).before.length > 0);
  const others = edits.filter((edit) => !shown(edit));
  return html`${texts.map((entry) => beforeAfter(entry, edits))}${others.length ? editTable(others) : nothing}`;
}

/** @param {Edit[]} edits */
function editTable(edits) {
  return html`<table class="edits">
    <caption>Edits</caption>
    <thead><tr><th scope="col">message</th><th scope="col">characters</th><th scope="col">kind</th><th scope="col">new text</th></tr></thead>
    <tbody>${edits.map(
      (edit) => html`<tr>
        <td>${visible(edit.message)} ${edit.part ? `part ${edit.part} ` : ""}${edit.field === "text" ? "" : visible(edit.field)}</td>
        <td>${edit.start}–${edit.end}</td><td>${edit.kind}</td><td><code>${visible(edit.replacement)}</code></td>
      </tr>`,
    )}</tbody>
  </table>`;
}
