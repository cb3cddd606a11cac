/** How a run ended: the verdict, what came in and what came out, and which steps did something. */

import { html, nothing } from "lit-html";
import { count, stageWord, visible } from "penstock/format.js";
import { problemView } from "./problem.js";
import { isGoingOn, statusOf, timesOf } from "./run-model.js";
import { textsOf } from "./run-texts.js";
import { textDiff } from "./text-diff.js";
import { cut } from "./words.js";

/** @typedef {import("./run-model.js").Run} Run */
/** @typedef {import("./types.js").Span} Span */

/** A longer text is shown cut, until all of it is asked for. */
const LONG = 20_000;

/**
 * @param {Run} run
 * @param {{select: (path: string) => void, cancel?: () => void, showAll?: boolean, onShowAll?: () => void}} actions
 */
export function resultView(run, actions) {
  return html`<section class="result" aria-label="Result">
    ${verdict(run, actions)}
    ${run.error && run.error.kind !== "cancelled" ? problemView(run.error) : nothing}
    ${isGoingOn(run) ? liveText(run) : texts(run, actions)}
    ${effects(run, actions.select)}
  </section>`;
}

/**
 * The line that says how the run stands.
 *
 * @param {Run} run
 * @param {{cancel?: () => void}} actions
 */
export function verdict(run, { cancel }) {
  const { word, tone } = statusOf(run);
  const tripwire = run.stored?.output?.tripwire ?? run.stored?.trace?.tripwire;
  const facts = [rowsDone(run), tokens(run)].filter(Boolean);
  return html`<div class="verdict" data-tone=${tone}>
    <p class="line"><strong>${word}</strong>${timesOf(run).map(({ text, why }) => html`<span title=${why}>${text}</span>`)}${facts.map((fact) => html`<span>${fact}</span>`)}
      ${isGoingOn(run) && cancel ? html`<button type="button" class="quiet small" id="cancel-run" @click=${cancel}>Cancel</button>` : nothing}</p>
    ${tripwire ? html`<p class="why"><b>${visible(tripwire.processor_id)}:</b> ${visible(tripwire.reason)}</p>` : nothing}
    ${run.total && isGoingOn(run) ? html`<progress max=${run.total} .value=${run.done} aria-label="Rows done"></progress>` : nothing}
  </div>`;
}

/** @param {Run} run */
function rowsDone({ done, total }) {
  if (total === null) return "";
  return done === total ? count(total, "row") : `${done.toLocaleString("en")} of ${count(total, "row")}`;
}

/** @param {Run} run */
function tokens(run) {
  const usage = run.stored?.trace?.usage ?? run.stored?.agent?.usage;
  if (!usage) return "";
  const sum = (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
  return sum ? count(sum, "token") : "";
}

/** @param {Run} run */
function liveText(run) {
  if (!run.text && !run.held) return nothing;
  return html`<figure class="io"><figcaption>Left so far${heldNote(run.held)}</figcaption><p class="text" dir="auto">${visible(run.text)}</p></figure>`;
}

/** @param {number} held */
export function heldNote(held) {
  return held ? html` <span class="held">${count(held, "character")} held</span>` : nothing;
}

/**
 * @param {Run} run
 * @param {{showAll?: boolean, onShowAll?: () => void}} actions
 */
function texts(run, { showAll = false, onShowAll }) {
  const { stored } = run;
  if (!stored || stored.file) return nothing;
  const { before, after } = textsOf(stored.input, stored.output, stored.stage, stored.row);
  if (before === null && after === null) return nothing;
  const blocked = stored.status === "blocked";
  if (after === null || before === null || (blocked && after === "")) {
    return html`${before === null ? nothing : figure("In", "", shown(before, showAll, onShowAll))}
      ${after ? figure("Out", "", shown(after, showAll, onShowAll)) : nothing}
      ${blocked ? html`<p class="none">Nothing came out.</p>` : nothing}`;
  }
  if (before === after) return figure("Out", "unchanged", shown(after, showAll, onShowAll));
  if (before.length + after.length > LONG * 4) {
    return html`${figure("In", "", shown(before, showAll, onShowAll))}${figure("Out", "", shown(after, showAll, onShowAll))}`;
  }
  const pieces = textDiff(before, after);
  return html`${figure("In", "removed is marked", marked(pieces, "added"))}${figure("Out", "new is marked", marked(pieces, "removed"))}`;
}

/**
 * @param {string} title
 * @param {string} note
 * @param {unknown} content
 */
function figure(title, note, content) {
  return html`<figure class="io"><figcaption>${title}${note ? html` <span class="note">${note}</span>` : nothing}</figcaption>
    <div class="text" dir="auto" tabindex="0" role="group" aria-label=${title}>${content}</div></figure>`;
}

/**
 * @param {string} text
 * @param {boolean} all
 * @param {(() => void) | undefined} onShowAll
 */
function shown(text, all, onShowAll) {
  if (text === "") return html`<span class="none">empty</span>`;
  if (all || text.length <= LONG) return visible(text);
  return html`${visible(cut(text, LONG))}
    <button type="button" class="quiet small" @click=${onShowAll}>Show all ${text.length.toLocaleString("en")} characters</button>`;
}

/**
 * One side of a difference.
 *
 * @param {import("./text-diff.js").Piece[]} pieces
 * @param {"added" | "removed"} without the pieces that are not of this side
 */
export function marked(pieces, without) {
  const own = pieces.filter((piece) => piece.kind !== without);
  if (own.length === 0) return html`<span class="none">empty</span>`;
  return own.map(({ kind, text }) => {
    if (kind === "same") return visible(text);
    return kind === "added" ? html`<ins>${visible(text)}</ins>` : html`<del>${visible(text)}</del>`;
  });
}

/**
 * The steps that did something, to choose from.
 *
 * @param {Run} run
 * @param {(path: string) => void} select
 */
function effects(run, select) {
  const spans = run.spans.filter(
    (span) => span.kind === "step" && (span.status !== "passed" || span.flagged?.length) && span.status !== "skipped",
  );
  if (spans.length === 0) return nothing;
  return html`<section class="effects"><h2>What happened</h2>
    <ul>${spans.slice(0, 200).map(
      (
        span,
      ) => html`<li><button type="button" class="effect" data-tone=${span.status} @click=${() => select(span.path)}>
      <b>${visible(span.name)}</b> <span>${sentenceOf(span)}</span> <small>${stageWord(span.stage)}</small></button></li>`,
    )}</ul>
  </section>`;
}

/** @param {Span} span */
function sentenceOf(span) {
  const would = span.shadow ? "would have " : "";
  if (span.status === "tripped") return `${would}stopped the run: ${visible(cut(span.tripwire?.reason ?? "", 120))}`;
  if (span.status === "failed") return `failed: ${visible(span.error ?? "")}`;
  if (span.status === "edited") return `${would}made ${count(span.edits?.length ?? 0, "edit")}${kindsOf(span)}`;
  return `flagged ${(span.flagged ?? []).map(visible).join(", ")}, and let it pass`;
}

/** @param {Span} span */
function kindsOf(span) {
  const kinds = [...new Set((span.edits ?? []).map((edit) => edit.kind))];
  return kinds.length ? ` (${kinds.join(", ")})` : "";
}
