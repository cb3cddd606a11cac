/** Starts the studio: draws its state, puts the pictures into their places, and listens to keys. */

import { html, nothing, render } from "lit-html";
import { visible } from "penstock/format.js";
import { benchView } from "./bench.js";
import { compareView } from "./compare-view.js";
import { problemView } from "./problem.js";
import { reviewsView } from "./reviews-view.js";
import { runMarks } from "./run-model.js";
import { listen, shortcutList } from "./shortcuts.js";
import { sidebar } from "./sidebar.js";
import { Studio } from "./studio.js";

const root = /** @type {HTMLElement} */ (document.getElementById("studio"));
const help = /** @type {() => HTMLDialogElement | null} */ (() => document.querySelector("dialog#help"));
const studio = new Studio(draw);

const shortcuts = [
  {
    key: "Enter",
    ctrl: true,
    does: "run",
    run: () => document.querySelector(/** @type {"button"} */ ("button#run"))?.click(),
  },
  { key: "/", does: "search workflows", run: () => focus("search-workflows") },
  { key: "f", does: "find a step in the picture", run: () => focus("search-steps") },
  { key: "i", does: "write the input", run: writeInput },
  {
    key: "p",
    does: "go to the picture",
    run: () => studio.host.picture?.element.querySelector(/** @type {"div"} */ ("[tabindex='0']"))?.focus(),
  },
  { key: "c", does: "compare", run: () => (location.hash = "#/compare") },
  { key: "r", does: "reviews: requests that wait for a decision", run: () => (location.hash = "#/reviews") },
  { key: "j", does: "in reviews: the next request", run: () => inReviews(() => studio.reviews.move(1)) },
  { key: "k", does: "in reviews: the request before", run: () => inReviews(() => studio.reviews.move(-1)) },
  { key: "a", does: "in reviews: go to Approve; Enter approves", run: () => inReviews(() => reach("button.approve")) },
  {
    key: "d",
    does: "in reviews: write why it is rejected; Enter rejects",
    run: () => inReviews(() => reach("input.reason")),
  },
  { key: "e", does: "in reviews: edit the arguments", run: () => inReviews(editArguments) },
  { key: "s", does: "choose the stage", run: () => focus("stage") },
  { key: "x", does: "cancel the run", run: () => studio.cancel() },
  { key: "?", does: "show these keys", run: () => help()?.showModal() },
];

/** @param {string} id */
function focus(id) {
  if (id === "search-workflows") studio.update({ sideOpen: true });
  requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById(id)?.focus()));
}

/** @param {() => void} act */
function inReviews(act) {
  if (studio.reviews.shown) act();
}

/** @param {string} selector of a control in the first call that is undecided */
function reach(selector) {
  document.querySelector(/** @type {"input"} */ (`.waiting-call ${selector}`))?.focus();
}

function editArguments() {
  const button = document.querySelector(/** @type {"button"} */ (".waiting-call button.edit"));
  if (button?.getAttribute("aria-pressed") === "false") button.click();
  requestAnimationFrame(() => requestAnimationFrame(() => reach("textarea")));
}

function writeInput() {
  studio.setBench({ panel: "run" });
  focus("input-text");
}

/** @param {Studio} now */
function draw(now) {
  render(page(now), root);
  showPictures(now);
}

/** @param {Studio} now */
function page(now) {
  const { state } = now;
  const { route, catalog } = state;
  const onBench = route.page !== "compare" && route.page !== "reviews";
  return html`<a class="skip" href="#title" @click=${skip}>Skip to the workflow</a>
    ${topBar(now)}
    ${state.connected ? nothing : html`<p class="offline" role="alert">The studio does not answer. Is <code>penstock studio</code> still running? This page tries again by itself.</p>`}
    <div class="columns ${state.sideOpen ? "side-open" : ""}">
      <nav class="sidebar" id="sidebar" aria-label="Workflows and runs">
        ${sidebar({
          workflows: catalog?.workflows ?? [],
          filter: state.filter,
          search: (filter) => now.update({ filter }),
          chosen: onBench ? state.bench.id : null,
          run: onBench ? (state.bench.run?.id ?? null) : null,
          runs: state.runs,
          more: state.more,
          loadMore: () => void now.loadMoreRuns(),
          remove: (run) => void now.removeRun(run),
          removeAll: () => void now.removeAllRuns(),
        })}
      </nav>
      <main>${state.problem && !catalog ? problemView(state.problem) : content(now)}</main>
    </div>
    <div class="toasts">${state.toasts.map(
      ({ id, text, tone }) => html`<p class="toast" data-tone=${tone}>${visible(text)}
        <button type="button" class="icon" aria-label="Dismiss" @click=${() => now.dismiss(id)}>✕</button></p>`,
    )}</div>
    <p class="sr-only" role="status" aria-live="polite">${visible([state.announcement, ...state.toasts.map((toast) => toast.text)].join(" "))}</p>
    <dialog id="help" aria-labelledby="help-title">
      <h2 id="help-title">Keys</h2>
      ${shortcutList(shortcuts)}
      <form method="dialog"><button class="primary">Close</button></form>
    </dialog>`;
}

/** @param {Studio} now */
function topBar(now) {
  const { state } = now;
  const comparing = state.route.page === "compare";
  return html`<header class="top">
    <button type="button" class="icon menu" aria-label="Workflows and runs" aria-expanded=${state.sideOpen ? "true" : "false"} aria-controls="sidebar"
      @click=${() => now.update({ sideOpen: !state.sideOpen })}>☰</button>
    <a class="brand" href=${state.bench.id ? `#/workflow/${state.bench.id}` : "#/"}>${LOGO}<span>Penstock</span> <span class="sub">studio</span></a>
    <span class="grow"></span>
    ${now.reviews.about ? reviewsLink(now) : nothing}
    <a class="button quiet" href=${comparing && state.bench.id ? `#/workflow/${state.bench.id}` : "#/compare"} aria-current=${comparing ? "page" : nothing}>Compare</a>
    <button type="button" class="icon" aria-label="Keys" title="Keys (?)" @click=${() => help()?.showModal()}>?</button>
  </header>`;
}

/** @param {Studio} now */
function reviewsLink({ state: { reviews, route } }) {
  const { waiting, more } = reviews;
  return html`<a class="button quiet" href="#/reviews" aria-current=${route.page === "reviews" ? "page" : nothing}>Reviews
    ${waiting ? html`<span class="count" aria-label="${waiting} waiting">${waiting}${more ? "+" : ""}</span>` : nothing}</a>`;
}

const LOGO = html`<svg class="logo" viewBox="0 0 24 24" width="22" height="22" aria-hidden="true">
  <path d="M3 6h7l7 12h4" fill="none" stroke="currentColor" stroke-width="3.2" stroke-linecap="round" stroke-linejoin="round"></path>
  <path d="M13.5 3v9" fill="none" stroke="var(--accent)" stroke-width="3.2" stroke-linecap="round"></path>
</svg>`;

/** @param {Studio} now */
function content(now) {
  const { route, catalog, bench } = now.state;
  if (!catalog) return html`<p class="none" role="status">Loading…</p>`;
  if (route.page === "compare") return compareView(now);
  if (route.page === "reviews") return reviewsView(now);
  if (bench.id || bench.problem) return benchView(now);
  return html`<p class="none">There is no workflow yet. Start the studio with a file: <code>penstock studio guards.py</code></p>`;
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("title")?.focus();
}

/** @param {Studio} now */
function showPictures(now) {
  const { bench, compare, route } = now.state;
  if (route.page === "compare") {
    for (const [at, side] of compare.sides.entries()) {
      const run = compare.runs?.[at];
      const svg = run?.stored?.svg ?? side.detail?.svg;
      const place = document.getElementById(`picture-${at}`);
      if (svg) now.sideHosts[at]?.show(place, shown(svg, side.detail, run ? runMarks(run) : {}));
      else place?.replaceChildren();
    }
    return;
  }
  if (route.page === "reviews") return;
  const svg = bench.oldPicture ? bench.run?.stored?.svg : bench.detail?.svg;
  if (!svg) return;
  const about = shown(svg, bench.detail, benchMarks(bench));
  now.host.show(document.getElementById("picture-bench"), { ...about, selected: bench.selected, found: now.found() });
}

/**
 * @param {Studio["state"]["bench"]} bench
 * @returns {import("./types.js").Shown}
 */
function benchMarks({ run, oldPicture, stage }) {
  return run ? runMarks(run, oldPicture ? null : stage) : {};
}

/**
 * @param {string} svg
 * @param {import("./types.js").Detail | null} detail
 * @param {import("./types.js").Shown} marks
 * @returns {import("./picture-host.js").Shown}
 */
function shown(svg, detail, marks) {
  const names = new Map();
  for (const { path, title, kind, role } of detail?.graph.nodes ?? []) {
    if (path) names.set(path, `${title}, ${role ?? kind}`);
  }
  return { svg, names, marks, selected: null, found: null, label: `Picture of ${detail?.name ?? "the workflow"}` };
}

listen(shortcuts);
draw(studio);
void studio.start();
