/** A run shown again, moment by moment: controls, what happens now, and a stream with what came in, is held, and left. */

import { html, nothing } from "lit-html";
import { duration, visible } from "penstock/format.js";
import { momentsOf, passedAt, streamAt } from "penstock/moments.js";
import { streamPieces } from "penstock/spans.js";

/** @typedef {import("./types.js").Trace} Trace */
/** @typedef {import("penstock/moments.js").Moment} Moment */

const PAUSE = 600;

export class Replay {
  /**
   * @param {Trace} trace
   * @param {() => void} onChange called whenever another moment is shown, also while it plays by itself
   */
  constructor(trace, onChange) {
    this.moments = momentsOf(trace);
    this.onChange = onChange;
    /** How many moments have passed; all of them at first, which is how the run ended. */
    this.index = this.moments.length;
    /** @type {number | undefined} */
    this.timer = undefined;
  }

  /** @returns {Moment | null} the last moment that has passed */
  get moment() {
    return this.moments[this.index - 1] ?? null;
  }

  /** @returns {Set<string> | null} the starts and ends that have passed; null when all is over */
  get passed() {
    return this.at === null ? null : passedAt(this.moments, this.index);
  }

  /** @returns {number | null} the time since the start of the run, in seconds; null when all is over */
  get at() {
    return this.index === this.moments.length ? null : (this.moment?.at ?? 0);
  }

  get playing() {
    return this.timer !== undefined;
  }

  /** @param {number} index */
  goTo(index) {
    this.index = Math.min(Math.max(index, 0), this.moments.length);
    if (this.index === this.moments.length) this.pause();
    this.onChange();
  }

  play() {
    if (this.playing) return;
    if (this.index === this.moments.length) this.index = 0;
    this.timer = window.setInterval(() => this.goTo(this.index + 1), PAUSE);
    this.onChange();
  }

  pause() {
    window.clearInterval(this.timer);
    this.timer = undefined;
  }
}

/**
 * The buttons and the slider of a replay, and what happens at the moment that is shown.
 *
 * @param {Replay} replay
 */
export function replayControls(replay) {
  const last = replay.moments.length;
  const toggle = () => {
    if (replay.playing) {
      replay.pause();
      replay.onChange();
    } else replay.play();
  };
  return html`<section class="replay" aria-label="Replay">
    <div class="buttons">
      <button type="button" @click=${() => replay.goTo(0)} ?disabled=${replay.index === 0} title="To the start">Start</button>
      <button type="button" @click=${() => replay.goTo(replay.index - 1)} ?disabled=${replay.index === 0} title="One step back">Back</button>
      <button type="button" @click=${toggle}>${replay.playing ? "Pause" : "Play"}</button>
      <button type="button" @click=${() => replay.goTo(replay.index + 1)} ?disabled=${replay.index === last} title="One step on">Next</button>
      <button type="button" @click=${() => replay.goTo(last)} ?disabled=${replay.index === last} title="To the end">End</button>
      <input type="range" min="0" max=${last} .value=${String(replay.index)} aria-label="Moment of the run"
        aria-valuetext=${sentence(replay.moment)}
        @input=${(/** @type {Event & {target: HTMLInputElement}} */ event) => replay.goTo(Number(event.target.value))}>
      <span class="count">${replay.index} of ${last}</span>
    </div>
    <p class="now" aria-live="polite">${sentence(replay.moment)}</p>
    ${replay.moment ? streamOf(replay) : nothing}
  </section>`;
}

/** @param {Moment | null} moment */
export function sentence(moment) {
  if (!moment) return "The run begins.";
  const { span, what, at } = moment;
  const time = duration(at);
  if (what === "chunk") return `${time}: chunk ${(moment.index ?? 0) + 1} of ${span.chunks?.length ?? 0}`;
  const name = `${span.kind.replace("_", " ")} ${visible(span.name)}`;
  return what === "start" ? `${time}: ${name} starts` : `${time}: ${name} ${END_WORDS[span.status]}`;
}

const END_WORDS = {
  passed: "passes",
  edited: "has edited",
  tripped: "stops the run",
  failed: "fails",
  skipped: "is not run",
};

/**
 * What came in, is held and left, up to the last chunk that has passed.
 *
 * @param {Replay} replay
 */
function streamOf(replay) {
  const past = replay.moments.slice(0, replay.index).filter((moment) => moment.what === "chunk");
  const moment = past[past.length - 1];
  if (!moment) return nothing;
  const { taken, held, left, chunk } = streamAt(moment.span, (moment.index ?? 0) + 1);
  return html`<div class="stream">
    <div><h4>came in</h4><p class="text">${streamPieces(taken, chunk.in.length, held).map(
      (piece) =>
        html`<ins class=${`${piece.added ? "added" : ""} ${piece.held ? "held" : ""}`}>${visible(piece.text)}</ins>`,
    )}</p></div>
    <div><h4>held</h4><p class="text">${held === 0 ? "nothing" : `${held} characters`}</p></div>
    <div><h4>left</h4><p class="text">${visible(left.slice(0, left.length - chunk.out.length))}<ins class="added">${visible(chunk.out)}</ins></p></div>
  </div>`;
}
