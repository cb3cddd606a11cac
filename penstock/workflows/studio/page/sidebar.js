/** The side of the page: all workflows, agents and presets with their state, and the last runs. */

import { html, nothing } from "lit-html";
import { visible } from "penstock/format.js";
import { statusOf } from "./run-model.js";
import { ago, cut, fileName } from "./words.js";

/** @typedef {import("./types.js").Summary} Summary */
/** @typedef {import("./types.js").ShortRun} ShortRun */

/**
 * @typedef {object} SidebarProps
 * @property {Summary[]} workflows
 * @property {string} filter
 * @property {(filter: string) => void} search
 * @property {string | null} chosen id of the workflow that is shown
 * @property {string | null} run id of the run that is shown
 * @property {ShortRun[]} runs
 * @property {boolean} more whether there are older runs
 * @property {() => void} loadMore
 * @property {(run: ShortRun) => void} remove
 * @property {() => void} removeAll
 */

/** @param {SidebarProps} props */
export function sidebar(props) {
  const found = props.workflows.filter((one) => matches(one, props.filter));
  const own = found.filter((one) => one.kind !== "preset");
  const presets = found.filter((one) => one.kind === "preset");
  const first = own[0] ?? presets[0];
  return html`<div class="search">
      <input id="search-workflows" type="search" placeholder="Search workflows" aria-label="Search workflows" aria-keyshortcuts="/"
        .value=${props.filter} @input=${(/** @type {Event & {currentTarget: HTMLInputElement}} */ event) => props.search(event.currentTarget.value)}
        @keydown=${(/** @type {KeyboardEvent & {currentTarget: HTMLInputElement}} */ event) => event.key === "Enter" && first && openFound(event.currentTarget, first)}>
    </div>
    ${byFile(own).map(([file, ones]) => group(file ? fileName(file) : "Workflows", file, ones, props.chosen))}
    ${presets.length ? group("Presets", null, presets, props.chosen) : nothing}
    ${found.length === 0 ? html`<p class="none">${props.filter ? "No workflow is called so." : "No workflows yet."}</p>` : nothing}
    ${lastRuns(props)}`;
}

/**
 * Open a workflow from the search, and leave the search, so that the keys of the page work.
 *
 * @param {HTMLInputElement} search
 * @param {Summary} workflow
 */
function openFound(search, { id }) {
  search.blur();
  location.assign(`#/workflow/${id}`);
}

/**
 * @param {Summary} workflow
 * @param {string} filter
 */
function matches({ name, reference, doc }, filter) {
  const all = `${name} ${reference} ${doc}`.toLowerCase();
  return filter
    .toLowerCase()
    .split(/\s+/)
    .every((word) => all.includes(word));
}

/**
 * @param {Summary[]} workflows
 * @returns {[string | null, Summary[]][]}
 */
function byFile(workflows) {
  /** @type {Map<string | null, Summary[]>} */
  const files = new Map();
  for (const one of workflows) files.set(one.file, [...(files.get(one.file) ?? []), one]);
  return [...files];
}

/**
 * @param {string} title
 * @param {string | null} path
 * @param {Summary[]} workflows
 * @param {string | null} chosen
 */
function group(title, path, workflows, chosen) {
  return html`<section class="group">
    <h2 title=${path ?? nothing}>${visible(title)}</h2>
    <ul>${workflows.map((one) => html`<li>${entry(one, one.id === chosen)}</li>`)}</ul>
  </section>`;
}

/**
 * @param {Summary} workflow
 * @param {boolean} chosen
 */
function entry({ id, name, kind, doc, problem }, chosen) {
  return html`<a href="#/workflow/${id}" class="entry" aria-current=${chosen ? "page" : nothing} title=${doc || nothing}>
    <span class="name">${visible(name)}</span>
    ${kind === "agent" ? html`<span class="tag">agent</span>` : nothing}
    ${problem ? html`<span class="tag failed">error</span>` : nothing}
  </a>`;
}

/** @param {SidebarProps} props */
function lastRuns({ runs, run, more, loadMore, remove, removeAll }) {
  return html`<section class="group runs" aria-label="Last runs">
    <div class="head"><h2>Last runs</h2>
      ${runs.length ? html`<button type="button" class="quiet small" @click=${removeAll}>Delete all</button>` : nothing}</div>
    ${runs.length === 0 ? html`<p class="none">What you run is kept here.</p>` : nothing}
    <ul>${runs.map(
      (one) => html`<li class="kept">${runEntry(one, one.id === run)}
      <button type="button" class="icon" aria-label="Delete the run ${visible(cut(one.title, 40))}" @click=${() => remove(one)}>✕</button></li>`,
    )}</ul>
    ${more ? html`<button type="button" class="quiet small" @click=${loadMore}>Older runs</button>` : nothing}
  </section>`;
}

/**
 * @param {ShortRun} run
 * @param {boolean} chosen
 */
function runEntry(run, chosen) {
  const { word, tone } = statusOf(run);
  return html`<a href="#/run/${run.id}" class="entry" aria-current=${chosen ? "page" : nothing}>
    <span class="dot" data-tone=${tone} title=${word}></span><span class="sr-only">${word}: </span>
    <span class="name">${visible(cut(run.title || "empty", 60))}</span>
    <span class="sub">${visible(run.workflow.name)} · ${ago(run.created)}</span>
  </a>`;
}
