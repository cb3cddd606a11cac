/** A workflow with its picture, a search, the step that was chosen, and a run laid over it. */

import { html, nothing } from "lit-html";
import { details, spanDetails, tripwireOf } from "penstock/details.js";
import { count, duration, visible } from "penstock/format.js";
import { shownOf } from "penstock/marks.js";
import { Picture } from "penstock/picture.js";
import { Replay, replayControls } from "penstock/replay.js";
import { find } from "penstock/search.js";
import { timeline } from "penstock/timeline.js";

/** @typedef {import("./types.js").WorkflowInfo} WorkflowInfo */
/** @typedef {import("./types.js").Trace} Trace */
/** @typedef {import("./types.js").RunMarks} RunMarks */
/** @typedef {import("./types.js").Span} Span */

export class View {
  /**
   * @param {string | SVGSVGElement} svg the picture of the workflow
   * @param {WorkflowInfo} info what is said of it
   * @param {() => void} onChange called when `template` would return something else
   */
  constructor(svg, info, onChange) {
    this.info = info;
    this.onChange = onChange;
    const names = new Map(info.steps.map((step) => [step.path, `${step.kind} ${visible(step.title)}`]));
    this.picture = new Picture(svg, { names, onSelect: (path) => this.select(path, { reveal: false }) });
    /** @type {Trace | null} */
    this.trace = null;
    /** @type {RunMarks | null} */
    this.marks = null;
    /** @type {Replay | null} */
    this.replay = null;
    /** @type {string | null} the path of a step */
    this.selected = null;
    /** @type {Span | null} one part of the run, if it was chosen and not its step */
    this.span = null;
    this.query = "";
  }

  /**
   * Lay a run over the picture, or take it away.
   *
   * @param {Trace | null} trace
   * @param {RunMarks | null} marks what it did to the picture
   */
  show(trace, marks) {
    this.replay?.pause();
    this.trace = trace;
    this.marks = marks;
    this.replay = trace && new Replay(trace, () => this.#moved());
    this.span = null;
    this.picture.mark(shownOf(marks));
    this.onChange();
  }

  /**
   * Choose a step, or none.
   *
   * @param {string | null} path
   * @param {{reveal?: boolean}} [options] reveal: bring its box into view
   */
  select(path, { reveal = true } = {}) {
    this.selected = path;
    this.span = null;
    this.picture.select(path, { reveal });
    this.onChange();
  }

  /**
   * Choose a part of the run, and its step in the picture.
   *
   * @param {Span} span
   */
  selectSpan(span) {
    this.span = span;
    this.selected = span.path || null;
    this.picture.select(this.selected, { reveal: true });
    this.onChange();
  }

  /** The element that `template` has made. */
  get element() {
    return this.picture.element.parentElement;
  }

  /** @param {string} query */
  search(query) {
    this.query = query;
    const found = find(this.info.steps, query);
    this.picture.highlight(query.trim() === "" ? null : found);
    if (found[0] !== undefined) this.picture.reveal(found[0]);
    this.onChange();
  }

  /** Show the moment of the replay: its marks, and the span that it is about. */
  #moved() {
    if (!this.replay || !this.trace) return;
    const { passed } = this.replay;
    this.picture.mark(shownOf(this.marks, passed));
    const span = passed === null ? null : (this.replay.moment?.span ?? null);
    if (span) this.selectSpan(span);
    else this.select(null);
    this.element?.querySelector(".timeline [aria-pressed=true]")?.scrollIntoView({ block: "nearest" });
  }

  /** The search and the buttons of the picture. */
  tools() {
    const found = find(this.info.steps, this.query);
    const searching = this.query.trim() !== "";
    return html`<div class="tools">
      <input type="search" placeholder="Search steps" aria-label="Search steps" aria-keyshortcuts="/" .value=${this.query}
        @input=${(/** @type {Event & {target: HTMLInputElement}} */ event) => this.search(event.target.value)}
        @keydown=${(/** @type {KeyboardEvent} */ event) => this.#onSearchKey(event, found)}>
      <output class="found">${searching ? `${found.length} found` : nothing}</output>
      <span class="buttons">
        <button type="button" @click=${() => this.picture.zoomBy(0.8)} aria-label="Smaller" title="Smaller (−)">−</button>
        <button type="button" @click=${() => this.picture.zoomBy(1.25)} aria-label="Larger" title="Larger (+)">+</button>
        <button type="button" @click=${() => this.picture.fit()} title="Show the whole picture (0)">Fit</button>
        <button type="button" @click=${() => this.picture.zoomTo(1)} title="Its own size">1:1</button>
      </span>
    </div>`;
  }

  /**
   * @param {KeyboardEvent} event
   * @param {string[]} found
   */
  #onSearchKey(event, found) {
    if (event.key === "Enter" && found.length > 0) {
      const next = (found.indexOf(this.selected ?? "") + 1) % found.length;
      this.select(found[next] ?? null);
    } else if (event.key === "Escape") {
      event.preventDefault();
      this.search("");
    }
  }

  /** The picture, the panel beside it, and the run below. */
  template() {
    return html`<div class="view">
      ${this.picture.element}
      <aside class="panel" aria-label="Details" tabindex="0">${this.#panel()}</aside>
      ${this.trace && this.replay ? this.#run(this.trace, this.replay) : nothing}
    </div>`;
  }

  /**
   * @param {Trace} trace
   * @param {Replay} replay
   */
  #run(trace, replay) {
    return html`<section class="run" aria-label="The run">
      ${replayControls(replay)}
      ${timeline(trace, { selected: this.span?.id ?? null, at: replay.at, onSelect: (span) => this.selectSpan(span) })}
    </section>`;
  }

  #panel() {
    const step = this.info.steps.find((one) => one.path === this.selected);
    const back = html`<button type="button" class="back" @click=${() => this.select(null)}>All steps</button>`;
    if (step) {
      const own = this.trace?.spans.filter((span) => span.path === step.path) ?? [];
      return html`${back}${details(step, this.span ? own.filter((span) => span === this.span) : own)}`;
    }
    if (this.span) {
      const { kind, name } = this.span;
      return html`${back}<h2>${kind.replace("_", " ")} ${visible(name)}</h2>${spanDetails(this.span)}`;
    }
    return html`${this.trace ? summary(this.trace) : nothing}${this.#steps()}`;
  }

  #steps() {
    const steps = this.info.steps.filter((step) => step.kind === "step");
    return html`<section><h2>${count(steps.length, "step")}</h2>
      <ul class="steps">${steps.map(
        (step) => html`<li><button type="button" @click=${() => this.select(step.path)}>
          <strong>${visible(step.title)}</strong> <span class="note">${visible(firstLine(step.doc ?? ""))}</span>
        </button></li>`,
      )}</ul></section>`;
  }
}

/**
 * How a run ended.
 *
 * @param {Trace} trace
 */
export function summary(trace) {
  const tokens = Object.entries(trace.usage ?? {}).map(([name, number]) => `${number} ${name.replaceAll("_", " ")}`);
  return html`<section class="summary" data-status=${trace.status}>
    <h2>Run: <span class="status">${trace.status}</span> in ${duration(trace.seconds)}</h2>
    ${trace.tripwire ? tripwireOf(trace.tripwire) : nothing}
    ${tokens.length ? html`<p>Tokens: ${tokens.join(", ")}</p>` : nothing}
    <p class="note">${trace.texts ? "With texts, including everything that was hidden." : "Without texts."}</p>
  </section>`;
}

/** @param {string} text */
function firstLine(text) {
  return text.split("\n", 1)[0] ?? "";
}
