/** All about one step: what it does, its options, facts, stages and policy, and what a run did in it. */

import { html, nothing } from "lit-html";
import { blocksOf, literalsOf } from "penstock/docstring.js";
import { count, duration, rounded, stageWord, visible } from "penstock/format.js";
import { textsOf } from "penstock/texts.js";

/** @typedef {import("./types.js").StepInfo} StepInfo */
/** @typedef {import("./types.js").Span} Span */
/** @typedef {import("./types.js").Tripwire} Tripwire */

/** What a run shows of a status, in words. */
export const STATUS_WORDS = {
  passed: "passed",
  edited: "edited",
  tripped: "stopped the run",
  failed: "failed",
  skipped: "not run",
};

/**
 * @param {StepInfo} step
 * @param {Span[]} [spans] what it did in a run, if one is shown
 */
export function details(step, spans = []) {
  return html`<article class="details" aria-label=${`${step.kind} ${visible(step.title)}`}>
    <h2>${visible(step.title)}</h2>
    <p class="path"><code>${visible(step.path)}</code></p>
    ${spans.map(spanDetails)}
    ${docOf(step.doc)}
    ${facts(step)}
    ${section(
      "Policy",
      Object.entries(step.policy ?? {}).filter(([, value]) => isSet(value)),
    )}
    ${step.options ? section("Options", Object.entries(step.options)) : nothing}
  </article>`;
}

/**
 * What one span of a trace says.
 *
 * @param {Span} span
 */
export function spanDetails(span) {
  return html`<section class="span" data-status=${span.status}>
    <h3><span class="status">${statusOf(span)}</span> ${stageWord(span.stage)} ${duration(span.seconds)}</h3>
    ${span.tripwire ? tripwireOf(span.tripwire) : nothing}
    ${span.error ? html`<p>Error: <code>${visible(span.error)}</code></p>` : nothing}
    ${span.flagged?.length ? html`<p>Found and let pass: ${span.flagged.map(visible).join(", ")}</p>` : nothing}
    ${
      span.arms?.length
        ? html`<ul class="arms">${span.arms.map(
            (arm) =>
              html`<li>${arm.taken ? "✓" : "–"} <code>${visible(arm.label)}</code> ${arm.taken ? "taken" : "not taken"}</li>`,
          )}</ul>`
        : nothing
    }
    ${textsOf(span)}
    ${table("Notes", Object.entries(span.details ?? {}))}
    ${table("Tokens", Object.entries(span.usage ?? {}))}
  </section>`;
}

/** @param {Span} span */
function statusOf(span) {
  if (!span.shadow) return span.tripwire?.retry ? "asked for a retry" : STATUS_WORDS[span.status];
  return (
    { tripped: "would have stopped the run (shadow)", edited: "would have edited (shadow)" }[String(span.status)] ??
    `${STATUS_WORDS[span.status]} (shadow)`
  );
}

/** @param {Tripwire} tripwire */
export function tripwireOf(tripwire) {
  return html`<p class="tripwire"><strong>${visible(tripwire.processor_id)}</strong>: ${visible(tripwire.reason)}</p>
    ${table("Verdict", Object.entries(tripwire.metadata ?? {}))}`;
}

/** @param {string | undefined} doc */
function docOf(doc) {
  const shown = { text: paragraph, heading: heading, item: item };
  return html`<div class="doc">${blocksOf(doc ?? "").map(({ kind, text }) => shown[kind](withCode(text)))}</div>`;
}

const paragraph = (/** @type {unknown} */ text) => html`<p>${text}</p>`;
const heading = (/** @type {unknown} */ text) => html`<h3>${text}</h3>`;
const item = (/** @type {unknown} */ text) => html`<p class="item">${text}</p>`;

/** @param {string} text */
function withCode(text) {
  return literalsOf(text).map((piece) =>
    piece.code ? html`<code>${visible(piece.text)}</code>` : visible(piece.text),
  );
}

/** @param {StepInfo} step */
function facts(step) {
  const rows = step.kind === "step" ? stepFacts(step) : nodeFacts(step);
  return table(
    "",
    rows.filter(([, value]) => value !== undefined && value !== null && value !== ""),
  );
}

/**
 * @param {StepInfo} node a branch, a parallel, a nested workflow, a dag
 * @returns {[string, unknown][]}
 */
function nodeFacts(node) {
  return [
    ["kind", node.kind],
    ["takes", node.match && `${node.match === "first" ? "the first arm" : "every arm"} that holds`],
    ["merge", node.merge],
    ["if it fails", node.on_error],
  ];
}

/**
 * @param {StepInfo} step
 * @returns {[string, unknown][]}
 */
function stepFacts(step) {
  return [
    ["class", step.processor],
    ["role", step.role ?? "undeclared"],
    ["may edit", step.edits],
    ["if it fails", step.on_error],
    ["stages", step.stages?.map(stageWord).join(", ")],
    ["needs facts", step.requires?.join(", ")],
    ["puts facts", step.provides?.join(", ")],
    ["stores", step.stores ? "yes" : undefined],
  ];
}

/**
 * @param {string} title
 * @param {[string, unknown][]} rows
 */
function section(title, rows) {
  return html`<section><h3>${title}</h3>${rows.length ? table("", rows) : html`<p class="none">none set</p>`}</section>`;
}

/**
 * @param {string} caption
 * @param {[string, unknown][]} rows
 */
export function table(caption, rows) {
  if (rows.length === 0) return nothing;
  return html`<table class="facts">
    ${caption ? html`<caption>${caption}</caption>` : nothing}
    <tbody>${rows.map(([name, value]) => html`<tr><th scope="row">${visible(name)}</th><td>${shown(value)}</td></tr>`)}</tbody>
  </table>`;
}

/** More entries of a list or an object than this are counted only. */
const MOST = 50;

/**
 * A value as people read it: names with their values below each other, a list of plain values in one line.
 *
 * @param {unknown} value
 * @returns {unknown}
 */
function shown(value) {
  if (Array.isArray(value)) return value.some(isNested) ? list(value) : plainList(value);
  if (isNested(value)) return fields(Object.entries(value));
  if (typeof value === "number") return number(value);
  return visible(typeof value === "string" ? value : (JSON.stringify(value) ?? ""));
}

/**
 * A number, rounded; a tooltip has all of its digits.
 *
 * @param {number} value
 */
function number(value) {
  const short = rounded(value);
  return short === String(value) ? short : html`<span title=${String(value)}>${short}</span>`;
}

/**
 * @param {unknown} value
 * @returns {value is object}
 */
function isNested(value) {
  return typeof value === "object" && value !== null;
}

/** @param {unknown[]} values */
function list(values) {
  return html`<ul class="values">${values.slice(0, MOST).map((value) => html`<li>${shown(value)}</li>`)}${more(values)}</ul>`;
}

/** @param {unknown[]} values */
function plainList(values) {
  if (values.length === 0) return html`<span class="none">none</span>`;
  const left = values.length > MOST ? [`… ${count(values.length - MOST, "more", "more")}`] : [];
  return [...values.slice(0, MOST).map(shown), ...left].map((one, at) => (at ? [", ", one] : one));
}

/** @param {[string, unknown][]} entries */
function fields(entries) {
  if (entries.length === 0) return html`<span class="none">none</span>`;
  return html`<dl class="values">${entries
    .slice(0, MOST)
    .map(
      ([name, value]) => html`<dt>${visible(name)}</dt><dd>${shown(value)}</dd>`,
    )}</dl>${entries.length > MOST ? html`<p class="none">… ${count(entries.length - MOST, "more", "more")}</p>` : nothing}`;
}

/** @param {unknown[]} values */
function more(values) {
  return values.length > MOST ? html`<li class="none">… ${count(values.length - MOST, "more", "more")}</li>` : nothing;
}

/** @param {unknown} value */
function isSet(value) {
  return value !== null && value !== undefined && value !== 0 && value !== "enforce";
}
