/** Two workflows, versions or sets of options side by side, run on the same input. */

import { html, nothing } from "lit-html";
import { visible } from "penstock/format.js";
import { kindOf, kindsFor } from "./input-model.js";
import { inputView } from "./input-view.js";
import { problemView } from "./problem.js";
import { marked, resultView } from "./result.js";
import { isGoingOn } from "./run-model.js";
import { textsOf } from "./run-texts.js";
import { changesInWords, countChanges } from "./step-view.js";
import { tabPanel, tabRow } from "./tabs.js";
import { textDiff } from "./text-diff.js";
import { ago } from "./words.js";

/** @typedef {import("./studio.js").Studio} Studio */
/** @typedef {import("./compare.js").Side} Side */

/** @param {Studio} studio */
export function compareView(studio) {
  const { compare } = studio.state;
  const busy = compare.runs?.some(isGoingOn) ?? false;
  return html`<div class="compare">
    <header class="toolbar"><h1 id="title" tabindex="-1">Compare</h1></header>
    <form class="input card" aria-label="Input" @submit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      void studio.comparison.start();
    }}>
      ${compareInput(studio)}
      <div class="buttons">
        <button type="submit" class="primary" id="run" ?disabled=${busy || compare.sides.some((side) => !side.workflow)}>Run both</button>
        ${busy ? html`<button type="button" @click=${() => studio.comparison.cancel()}>Cancel</button>` : nothing}
      </div>
      ${compare.error ? html`<p class="error" role="alert">${visible(compare.error)}</p>` : nothing}
    </form>
    ${differences(studio)}
    <div class="sides">${compare.sides.map((side, at) => sideView(studio, side, at))}</div>
  </div>`;
}

/** @param {Studio} studio */
function compareInput(studio) {
  const { compare } = studio.state;
  const kinds = kindsFor("workflow", undefined).filter((kind) => kind.id !== "file");
  const kind = kindOf(compare.draft, kinds);
  return html`${tabRow("Input of both", kinds, kind, (chosen) => studio.comparison.setDraft({ kind: /** @type {"text"} */ (chosen) }))}
    ${tabPanel(
      "Input of both",
      kind,
      inputView(kind, {
        draft: compare.draft,
        change: (patch) => studio.comparison.setDraft(patch),
        rows: 2,
        uploading: null,
        upload: () => {},
        cancelUpload: () => {},
      }),
    )}`;
}

/**
 * @param {Studio} studio
 * @param {Side} side
 * @param {number} at 0 for the left one
 */
function sideView(studio, side, at) {
  const { compare, catalog } = studio.state;
  const run = compare.runs?.[at];
  const summary = studio.workflow(side.workflow);
  const name = at === 0 ? "Left" : "Right";
  return html`<section class="card side" aria-label=${name}>
    <div class="about"><div class="head">
      <select aria-label="${name} workflow" @change=${(/** @type {Event & {currentTarget: HTMLSelectElement}} */ event) => studio.comparison.setSide(at, { workflow: event.currentTarget.value, version: null, changes: {} })}>
        <option value="" disabled .selected=${!side.workflow}>Choose a workflow</option>
        ${(catalog?.workflows ?? []).map((one) => html`<option value=${one.id} .selected=${one.id === side.workflow}>${visible(one.name)}</option>`)}
      </select>
      ${
        (summary?.versions.length ?? 0) > 1
          ? html`<select aria-label="${name} version" @change=${(/** @type {Event & {currentTarget: HTMLSelectElement}} */ event) => studio.comparison.setSide(at, { version: Number(event.currentTarget.value) })}>
          ${[...(summary?.versions ?? [])].reverse().map(({ version, loaded }) => html`<option value=${version} .selected=${version === (side.version ?? summary?.version)}>version ${version}, ${ago(loaded)}</option>`)}
        </select>`
          : nothing
      }
    </div>
    ${
      countChanges(side.changes)
        ? html`<p class="changes"><span class="tag changed">changed</span> <code>${visible(changesInWords(side.changes))}</code>
          <button type="button" class="quiet small" @click=${() => studio.comparison.setSide(at, { changes: {} })}>Reset</button></p>`
        : html`<p class="changes none">options as they are</p>`
    }
    ${side.problem ? problemView(side.problem) : nothing}</div>
    <div class="picture-place" id="picture-${at}"></div>
    <div class="outcome">${run ? resultView(run, { select: () => {} }) : nothing}</div>
  </section>`;
}

/** @param {Studio} studio */
function differences(studio) {
  const { compare } = studio.state;
  const [left, right] = compare.runs ?? [];
  if (!left?.stored || !right?.stored) return nothing;
  const { result } = compare;
  return html`<section class="card differences" aria-label="Differences">
    <h2>Differences</h2>
    ${outputs(left.stored, right.stored)}
    ${more("What the runs did", result?.trace)}
    ${more("The workflows", result?.diff, result?.diff?.svg)}
    ${result?.diff?.same ? html`<p class="none">The workflows are the same.</p>` : nothing}
  </section>`;
}

/**
 * @param {string} title
 * @param {{same: boolean, text: string} | null | undefined} difference
 * @param {string | null} [svg] the difference as a picture; an image, so that its style stays its own
 */
function more(title, difference, svg) {
  if (!difference || difference.same) return nothing;
  const source = svg && `data:image/svg+xml,${encodeURIComponent(svg)}`;
  return html`<details><summary>${title}</summary>
    ${source ? html`<div class="drawn" tabindex="0" role="group" aria-label="Picture"><img src=${source} alt="${title}, drawn; the text below says the same"></div>` : nothing}
    <pre class="doc">${visible(difference.text)}</pre></details>`;
}

/**
 * @param {import("./types.js").StoredRun} left
 * @param {import("./types.js").StoredRun} right
 */
function outputs(left, right) {
  const verdict =
    left.status === right.status ? `Both: ${left.status}` : `Left: ${left.status}, right: ${right.status}`;
  const [before, after] = [left, right].map((run) => textsOf(run.input, run.output, run.stage).after ?? "");
  if (left.status === right.status && before === after) {
    return html`<p class="same">${verdict}. The outputs are the same.</p>`;
  }
  const [tripped, over] = [left, right].map((run) => run.output?.tripwire);
  const pieces = textDiff(before ?? "", after ?? "");
  const whole = Boolean(tripped ?? over); // a text and none have no difference worth marking
  return html`<p>${verdict}.</p>
    <div class="two">
      ${side("Left", tripped, whole ? visible(before ?? "") : marked(pieces, "added"))}
      ${side("Right", over, whole ? visible(after ?? "") : marked(pieces, "removed"))}
    </div>`;
}

/**
 * @param {string} title
 * @param {import("./types.js").Tripwire | null | undefined} tripwire
 * @param {unknown} text
 */
function side(title, tripwire, text) {
  const content = tripwire
    ? html`<span class="stopped">Stopped by <b>${visible(tripwire.processor_id)}</b>: ${visible(tripwire.reason)}</span>`
    : text;
  return html`<figure class="io"><figcaption>${title}</figcaption>
    <div class="text" dir="auto" tabindex="0" role="group" aria-label="Output, ${title}">${content}</div></figure>`;
}
