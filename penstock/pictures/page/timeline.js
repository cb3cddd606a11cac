/** The timeline of a trace: one line a span, with a bar where its time was. */

import { html, nothing, svg } from "lit-html";
import { duration, visible } from "penstock/format.js";
import { badgeOf, depthsOf } from "penstock/trace.js";

/** @typedef {import("./types.js").Trace} Trace */
/** @typedef {import("./types.js").Span} Span */

/**
 * @param {Trace} trace
 * @param {{selected?: number | null, at?: number | null, onSelect?: (span: Span) => void}} [options]
 *   selected: the id of a span; at: draw a line at this time, in seconds; onSelect: called with the span that was chosen
 */
export function timeline(trace, { selected = null, at = null, onSelect = () => {} } = {}) {
  const depths = depthsOf(trace);
  const total = Math.max(trace.seconds, ...trace.spans.map((span) => span.at + span.seconds), 1e-9);
  return html`<ol class="timeline" aria-label="Timeline of the run, ${duration(trace.seconds)}">
    ${trace.spans.map(
      (span) => html`<li data-status=${span.status}>
        <button type="button" aria-pressed=${span.id === selected} @click=${() => onSelect(span)}>
          <span class="name" data-depth=${Math.min(depths.get(span.id) ?? 0, 8)}>
            <span class="kind">${span.kind.replace("_", " ")}</span> ${visible(span.name)}
          </span>
          ${bar(span, total, at)}
          <span class="badge">${badgeOf(span)}</span>
        </button>
      </li>`,
    )}
  </ol>`;
}

/**
 * @param {Span} span
 * @param {number} total
 * @param {number | null} at
 */
function bar(span, total, at) {
  const percent = (/** @type {number} */ seconds) => `${((seconds / total) * 100).toFixed(3)}%`;
  const line =
    at === null ? nothing : svg`<line class="now" x1=${percent(at)} x2=${percent(at)} y1="0" y2="100%"></line>`;
  return html`<svg class="bar" aria-hidden="true" preserveAspectRatio="none">
    <rect x=${percent(span.at)} y="25%" width=${percent(span.seconds)} height="50%" rx="2"></rect>${line}
  </svg>`;
}
