/** The page of one workflow: its picture, what it is run on, what a run did, and the step that is chosen. */

import { html, nothing } from "lit-html";
import { stageWord, visible } from "penstock/format.js";
import { replayControls } from "penstock/replay.js";
import { timeline } from "penstock/timeline.js";
import { chatView } from "./chat.js";
import { kindOf, kindsFor } from "./input-model.js";
import { inputView } from "./input-view.js";
import { problemView } from "./problem.js";
import { resultView } from "./result.js";
import { rowsView } from "./rows.js";
import { isGoingOn, traceOf } from "./run-model.js";
import { changedBar, stepView } from "./step-view.js";
import { tabPanel, tabRow } from "./tabs.js";
import { ago, cut } from "./words.js";

/** @typedef {import("./studio.js").Studio} Studio */
/** @typedef {import("./run-model.js").Run} Run */

/** A timeline of more spans than this takes long to draw. */
const MOST_SPANS = 1500;

/** @param {Studio} studio */
export function benchView(studio) {
  const { bench } = studio.state;
  const { detail, summary } = bench;
  return html`<div class="bench" data-docked=${bench.run && !isChat(studio) ? "" : nothing}>
    <section class="canvas" aria-label="Workflow">
      ${toolbar(studio)}
      ${problems(studio)}
      <div class="picture-place" id="picture-bench" ?hidden=${!detail}></div>
      ${!detail && bench.loading ? html`<p class="none" role="status">Loading ${visible(summary?.name ?? "the workflow")}…</p>` : nothing}
      ${bench.run ? dock(studio, bench.run) : nothing}
    </section>
    ${detail ? side(studio) : nothing}
  </div>`;
}

/** @param {Studio} studio */
function isChat({ state: { bench } }) {
  return bench.summary?.kind === "agent";
}

/** @param {Studio} studio */
function toolbar(studio) {
  const { bench } = studio.state;
  const { detail, summary } = bench;
  const old = bench.run?.stored && bench.oldPicture;
  return html`<header class="toolbar">
    <h1 id="title" tabindex="-1">${visible(summary?.name ?? detail?.name ?? "")}</h1>
    ${old ? html`<span class="tag">as it was ${ago(bench.run?.stored?.created ?? 0)}</span>` : versions(studio)}
    <div class="tools">
      ${detail && !old ? stages(studio) : nothing}
      ${
        detail
          ? html`<input id="search-steps" type="search" placeholder="Find a step" aria-label="Find a step" aria-keyshortcuts="f" .value=${bench.query}
        @input=${(/** @type {Event & {currentTarget: HTMLInputElement}} */ event) => studio.setBench({ query: event.currentTarget.value })}
        @keydown=${(/** @type {KeyboardEvent} */ event) => event.key === "Enter" && studio.openFound()}>
      <div class="zoom" role="group" aria-label="Zoom">
        <button type="button" class="icon" aria-label="Smaller" @click=${() => studio.host.picture?.zoomBy(0.8)}>−</button>
        <button type="button" class="icon" aria-label="Show all" title="Show all" @click=${() => studio.host.picture?.fit()}>⤢</button>
        <button type="button" class="icon" aria-label="Larger" @click=${() => studio.host.picture?.zoomBy(1.25)}>+</button>
      </div>`
          : nothing
      }
    </div>
  </header>`;
}

/** @param {Studio} studio */
function versions(studio) {
  const { bench } = studio.state;
  const all = bench.summary?.versions ?? [];
  if (all.length < 2) return nothing;
  return html`<select aria-label="Version" @change=${(/** @type {Event & {currentTarget: HTMLSelectElement}} */ event) => studio.setVersion(event.currentTarget.value)}>
    ${[...all].reverse().map(({ version, loaded }) => html`<option value=${version} .selected=${version === (bench.version ?? bench.summary?.version)}>version ${version}, ${ago(loaded)}</option>`)}
  </select>`;
}

/** @param {Studio} studio */
function stages(studio) {
  const { bench, catalog } = studio.state;
  if (isChat(studio)) return nothing;
  const served = (catalog?.stages ?? []).filter((stage) => bench.detail?.stages.includes(stage.name));
  return html`<select id="stage" aria-label="Stage" title="The stage at which the workflow runs" @change=${(/** @type {Event & {currentTarget: HTMLSelectElement}} */ event) => studio.setStage(event.currentTarget.value)}>
    <option value="" .selected=${bench.stage === null}>all stages</option>
    ${served.map((stage) => html`<option value=${stage.name} .selected=${stage.name === bench.stage}>${stageWord(stage.name)}</option>`)}
  </select>`;
}

/** @param {Studio} studio */
function problems(studio) {
  const { bench } = studio.state;
  const stale = bench.summary?.problem;
  if (stale) return problemView(stale, bench.detail ? `Version ${bench.detail.shown} is still shown, and runs.` : "");
  return bench.problem ? problemView(bench.problem) : nothing;
}

/** @param {Studio} studio */
function side(studio) {
  const { bench } = studio.state;
  const tabs = [
    { id: "run", label: isChat(studio) ? "Chat" : "Run" },
    { id: "step", label: bench.selected === null ? "About" : "Step" },
  ];
  return html`<aside class="side-panel" aria-label="Run and step">
    ${tabRow("Panel", tabs, bench.panel, (panel) => studio.setBench({ panel: /** @type {"run"} */ (panel) }))}
    ${tabPanel("Panel", bench.panel, bench.panel === "run" ? runPanel(studio) : step(studio))}
  </aside>`;
}

/** @param {Studio} studio */
function step(studio) {
  const { bench } = studio.state;
  if (!bench.detail) return nothing;
  return stepView({
    detail: bench.detail,
    path: bench.selected,
    spans: (bench.run?.spans ?? []).filter((span) => span.path !== "" && span.path === bench.selected),
    changes: bench.changes,
    errors: bench.errors,
    change: (...about) => studio.changeOption(...about),
    reset: (...about) => studio.resetOption(...about),
    refuse: (...about) => studio.refuseOption(...about),
    resetAll: () => studio.resetOptions(),
    tryChanges: () => studio.tryChanges(),
    editable: !bench.oldPicture,
  });
}

/** @param {Studio} studio */
function runPanel(studio) {
  const { bench } = studio.state;
  if (isChat(studio)) return chat(studio);
  const { draft, run } = bench;
  return html`${inputForm(studio)}
    ${bench.inputError ? html`<p class="error" role="alert">${visible(bench.inputError)}</p>` : nothing}
    ${changedBar({ changes: bench.changes, errors: bench.errors, tryChanges: () => studio.tryChanges(), resetAll: () => studio.resetOptions() })}
    ${bench.parent ? html`<p><a href="#/run/${bench.parent}">← Back to all rows</a></p>` : nothing}
    ${run ? resultView(run, { select: (path) => studio.select(path), cancel: () => studio.cancel(), showAll: bench.showAll, onShowAll: () => studio.setBench({ showAll: true }) }) : nothing}
    ${run ? otherRun(studio, run) : nothing}
    ${run || draft.text ? nothing : html`<p class="none hint">The result appears here: what came out, and which steps did something.</p>`}`;
}

/**
 * Another run to compare with.
 *
 * @param {Studio} studio
 * @param {Run} run
 */
function otherRun(studio, run) {
  const others = studio.state.runs.filter((one) => one.id !== run.id && one.state === "done" && one.status !== "done"); // a file is "done"
  if (run.stored?.state !== "done" || run.stored.file || others.length === 0) return nothing;
  return html`<label class="field other-run"><span>Compare with another run</span>
    <select @change=${(/** @type {Event & {currentTarget: HTMLSelectElement}} */ event) => void studio.comparison.compareRuns(run.id, event.currentTarget.value)}>
      <option value="" disabled .selected=${true}>Choose a run</option>
      ${others.map((one) => html`<option value=${one.id}>${visible(`${cut(one.title || "empty", 40)} · ${one.workflow.name} · ${ago(one.created)}`)}</option>`)}
    </select></label>`;
}

/** @param {Studio} studio */
function inputForm(studio) {
  const { bench, catalog } = studio.state;
  const stage = catalog?.stages.find((one) => one.name === (bench.stage ?? studio.defaultStage()));
  const kinds = kindsFor(bench.summary?.kind ?? "workflow", stage);
  const kind = kindOf(bench.draft, kinds);
  const view = inputView(kind, {
    draft: bench.draft,
    change: (patch) => studio.setDraft(patch),
    uploading: bench.uploading,
    upload: (file) => studio.upload(file),
    cancelUpload: () => studio.cancelUpload(),
  });
  const busy = isGoingOn(bench.run);
  return html`<form class="input" aria-label="Input" @submit=${(/** @type {Event} */ event) => {
    event.preventDefault();
    void studio.run();
  }}>
    ${tabRow("Input", kinds, kind, (chosen) => studio.setDraft({ kind: /** @type {"text"} */ (chosen) }))}
    ${tabPanel("Input", kind, view)}
    <div class="buttons">
      <button type="submit" class="primary" id="run" ?disabled=${busy || bench.uploading !== null} aria-keyshortcuts="Control+Enter">Run</button>
      ${busy ? html`<button type="button" @click=${() => studio.cancel()}>Cancel</button>` : nothing}
      <span class="note">at ${stageWord(bench.stage ?? studio.defaultStage())}</span>
    </div>
  </form>`;
}

/** @param {Studio} studio */
function chat(studio) {
  const { bench } = studio.state;
  return html`${changedBar({ changes: bench.changes, errors: bench.errors, tryChanges: () => studio.tryChanges(), resetAll: () => studio.resetOptions() })}
    ${bench.inputError ? html`<p class="error" role="alert">${visible(bench.inputError)}</p>` : nothing}
    ${chatView({
      messages: bench.chat,
      run: bench.run,
      question: bench.draft.question,
      write: (question) => studio.setDraft({ question }),
      send: () => void studio.send(),
      cancel: () => studio.cancel(),
      clear: () => studio.clearChat(),
      select: (span) => studio.selectSpan(span),
      reviewed: studio.reviews.about !== null,
    })}`;
}

/**
 * What a run did, below the picture.
 *
 * @param {Studio} studio
 * @param {Run} run
 */
function dock(studio, run) {
  const { bench } = studio.state;
  const tabs = dockTabs(run);
  const chosen = tabs.some((tab) => tab.id === bench.dock) ? bench.dock : (tabs[0]?.id ?? "timeline");
  const content =
    { timeline: timelineTab, replay: replayTab, rows: rowsTab, log: logTab, diff: () => nothing }[chosen] ??
    timelineTab;
  return html`<section class="dock" aria-label="What the run did">
    <div class="dock-head">
      ${tabRow("Run details", tabs, chosen, (tab) => studio.setDock(tab))}
      <button type="button" class="icon" aria-label="Close the run" title="Close the run" @click=${() => studio.closeRun()}>✕</button>
    </div>
    ${tabPanel("Run details", chosen, content(studio, run))}
  </section>`;
}

/** @param {Run} run */
function dockTabs(run) {
  const tabs = [];
  if (run.total !== null || run.stored?.file) tabs.push({ id: "rows", label: "Rows" });
  else tabs.push({ id: "timeline", label: "Timeline" });
  if (run.stored?.trace) tabs.push({ id: "replay", label: "Replay" });
  if (run.logs) tabs.push({ id: "log", label: "Log" });
  return tabs;
}

/**
 * @param {Studio} studio
 * @param {Run} run
 */
function timelineTab(studio, run) {
  const trace = traceOf(run);
  if (!trace?.spans.length) return html`<p class="none">${noSpans(run)}</p>`;
  const spans = trace.spans.slice(0, MOST_SPANS);
  return html`${timeline({ ...trace, spans }, { selected: studio.state.bench.span, onSelect: (span) => studio.selectSpan(span) })}
    ${trace.spans.length > MOST_SPANS ? html`<p class="none">Only the first ${MOST_SPANS} of ${trace.spans.length} are shown; the file has all.</p>` : nothing}
    ${run.stored ? html`<p class="note"><a href="/api/runs/${run.id}/trace.json" download="trace-${run.id}.json">Download the trace as JSON</a></p>` : nothing}`;
}

/** @param {Run} run */
function noSpans(run) {
  if (!isGoingOn(run)) return "The run has no trace.";
  if (run.running.length === 0) return "Waiting for the first step…";
  return `Running: ${run.running.map((one) => visible(one.name)).join(", ")}`;
}

/**
 * @param {Studio} studio
 * @param {Run} run
 */
function replayTab(studio, run) {
  const replay = studio.replayOf(run);
  const trace = traceOf(run);
  if (!replay || !trace) return nothing;
  const spans = trace.spans.slice(0, MOST_SPANS);
  const onSelect = (/** @type {import("./types.js").Span} */ span) => studio.selectSpan(span);
  return html`${replayControls(replay)}${timeline({ ...trace, spans }, { selected: studio.state.bench.span, at: replay.at, onSelect })}`;
}

/**
 * @param {Studio} studio
 * @param {Run} run
 */
function rowsTab(studio, run) {
  return rowsView(run, studio.state.bench.rows, {
    change: (patch) => studio.setRows(patch),
    open: (row) => void studio.openRow(row),
    results: run.stored && run.status === "done" ? `/api/runs/${run.id}/results.jsonl` : null,
  });
}

/**
 * @param {Studio} _studio
 * @param {Run} run
 */
function logTab(_studio, run) {
  return html`<pre class="log" tabindex="0" aria-label="Log"><code>${visible(run.logs.slice(-100_000))}</code></pre>`;
}
