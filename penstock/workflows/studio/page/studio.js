/** The state of the studio, and all that a reader can do. The views show the state, and call these methods. */

import { Replay } from "penstock/replay.js";
import { find } from "penstock/search.js";
import { ApiError, ask, upload } from "./api.js";
import { Comparison, newCompareState } from "./compare.js";
import { listen } from "./events.js";
import { DraftError, draftOf, inputOf, kindOf, kindsFor, newDraft } from "./input-model.js";
import { PictureHost } from "./picture-host.js";
import { problemOf } from "./problem.js";
import { newReviewsState, Reviews } from "./reviews.js";
import { newRowsState } from "./rows-model.js";
import { apply, complete, EVENTS, isGoingOn, newRun, statusOf } from "./run-model.js";
import { createStore } from "./store.js";
import { cut } from "./words.js";

/** @typedef {import("./types.js").Summary} Summary */
/** @typedef {import("./types.js").ShortRun} ShortRun */
/** @typedef {import("./types.js").StoredRun} StoredRun */
/** @typedef {import("./types.js").Problem} Problem */
/** @typedef {import("./types.js").Changes} Changes */
/** @typedef {import("./types.js").Row} Row */
/** @typedef {import("./types.js").Span} Span */
/** @typedef {import("./types.js").ChatMessage} ChatMessage */
/** @typedef {import("./input-model.js").Draft} Draft */
/** @typedef {import("./run-model.js").Run} Run */

/**
 * @typedef {object} Bench What the page of a workflow shows.
 * @property {string | null} id of the workflow
 * @property {Summary | null} summary
 * @property {import("./types.js").Detail | null} detail
 * @property {Problem | null} problem why there is no detail
 * @property {boolean} loading
 * @property {number | null} version null for the newest one
 * @property {string | null} stage null for all in the picture
 * @property {Changes} changes
 * @property {Map<string, string>} errors of options, by path, group and name
 * @property {string | null} selected path of a step
 * @property {number | null} span id of a span
 * @property {string} query
 * @property {"run" | "step"} panel
 * @property {string} dock
 * @property {Draft} draft
 * @property {string} inputError
 * @property {{name: string, share: number} | null} uploading
 * @property {Run | null} run
 * @property {string | null} parent id of the run over the file of which this run's row is
 * @property {boolean} oldPicture whether the picture is that of the run, and not of the workflow as it is now
 * @property {boolean} showAll
 * @property {import("./rows-model.js").RowsState} rows
 * @property {ChatMessage[]} chat
 *
 * @typedef {object} State
 * @property {import("./types.js").Catalog | null} catalog
 * @property {Problem | null} problem why there is no catalog
 * @property {boolean} connected
 * @property {{page: "home" | "workflow" | "run" | "compare" | "reviews", id: string | null}} route
 * @property {string} filter
 * @property {ShortRun[]} runs
 * @property {boolean} more
 * @property {Bench} bench
 * @property {import("./compare.js").CompareState} compare
 * @property {import("./reviews.js").ReviewsState} reviews
 * @property {{id: number, text: string, tone: string}[]} toasts
 * @property {string} announcement for screen readers
 * @property {boolean} sideOpen whether the side is shown in a narrow window
 */

/** How long a message stays, in milliseconds. */
const TOAST = 6000;
const KEPT_DRAFT = "penstock-draft";

/** @returns {Bench} */
function newBench() {
  return {
    id: null,
    summary: null,
    detail: null,
    problem: null,
    loading: false,
    version: null,
    stage: null,
    changes: {},
    errors: new Map(),
    selected: null,
    span: null,
    query: "",
    panel: "run",
    dock: "timeline",
    draft: newDraft(),
    inputError: "",
    uploading: null,
    run: null,
    parent: null,
    oldPicture: false,
    showAll: false,
    rows: newRowsState(),
    chat: [],
  };
}

export class Studio {
  /** @param {(studio: Studio) => void} draw */
  constructor(draw) {
    /** @type {State} */
    const state = {
      catalog: null,
      problem: null,
      connected: true,
      route: { page: "home", id: null },
      filter: "",
      runs: [],
      more: false,
      bench: { ...newBench(), draft: { ...newDraft(), ...keptDraft() } },
      compare: newCompareState(),
      reviews: newReviewsState(),
      toasts: [],
      announcement: "",
      sideOpen: false,
    };
    const store = createStore(state, () => draw(this));
    this.state = store.state;
    /** @type {(patch?: Partial<State>) => void} */
    this.update = store.update;
    this.host = new PictureHost((path) => this.select(path));
    this.sideHosts = [new PictureHost(() => {}), new PictureHost(() => {})];
    this.comparison = new Comparison(this);
    this.reviews = new Reviews(this);
    /** @type {() => void} */
    this.unfollow = () => {};
    /** @type {() => void} */
    this.stopUpload = () => {};
    /** @type {number | undefined} */
    this.previewTimer = undefined;
    this.started = null;
    this.loads = 0;
  }

  // ------------------------------------------------------------------------------------------------ start and news

  async start() {
    window.addEventListener("hashchange", () => void this.followRoute());
    listen({
      url: "/api/events",
      names: ["hello", "workflow", "runs", "reviews", "bye"],
      event: (name, data) => this.#news(name, data),
      poll: async () => {
        await this.loadCatalog();
        await this.loadRuns();
      },
      connection: (connected) => this.#connection(connected),
    });
    await Promise.all([this.loadCatalog(), this.loadRuns()]);
    this.reviews.start();
    await this.followRoute();
  }

  /** @param {boolean} connected */
  #connection(connected) {
    if (connected === this.state.connected) return;
    this.update({ connected });
    this.announce(connected ? "Connected again." : "The studio does not answer.");
    if (connected) void Promise.all([this.loadCatalog(), this.loadRuns()]);
  }

  /**
   * @param {string} name
   * @param {any} data
   */
  #news(name, data) {
    if (name === "runs") void Promise.all([this.loadRuns(), this.reviews.load()]);
    else if (name === "reviews") void this.reviews.load();
    else if (name === "workflow") this.#changed(data);
    else if (name === "bye") this.#connection(false);
    else if (name === "hello") {
      if (this.started !== null && this.started !== data.started)
        void Promise.all([this.loadCatalog(), this.loadRuns()]);
      this.started = data.started;
    }
  }

  async loadCatalog() {
    try {
      const catalog = await ask("GET", "workflows");
      const before = this.state.catalog?.workflows.find((one) => one.id === this.state.bench.id);
      this.update({ catalog, problem: null });
      const now = this.workflow(this.state.bench.id);
      if (before && now && (before.version !== now.version || Boolean(before.problem) !== Boolean(now.problem)))
        this.#changed(now);
    } catch (error) {
      this.update({ problem: problemOf(error) });
    }
  }

  /** @param {Summary} summary of a workflow whose file was changed */
  #changed(summary) {
    const { catalog, bench } = this.state;
    if (!catalog) return;
    const before = this.workflow(summary.id);
    const workflows = before
      ? catalog.workflows.map((one) => (one.id === summary.id ? summary : one))
      : [...catalog.workflows, summary];
    this.update({ catalog: { ...catalog, workflows } });
    if (bench.id !== summary.id) return;
    const reloaded = bench.summary?.version !== summary.version;
    const known = bench.detail !== null || bench.summary?.problem; // else it is being loaded for the first time
    const broken = summary.problem && !bench.summary?.problem;
    bench.summary = summary;
    if (reloaded && summary.version !== null && known) {
      this.toast(`${summary.name} was changed: version ${summary.version} is loaded.`, "passed");
      bench.version = null;
      void this.loadDetail();
    } else if (broken) this.announce(`${summary.name} does not load: ${summary.problem?.message}`);
  }

  /** @param {number} [limit] */
  async loadRuns(limit = Math.max(30, this.state.runs.length)) {
    try {
      const { runs, more } = await ask("GET", `runs?limit=${limit}`);
      this.update({ runs, more });
    } catch {
      // The list of last runs is beside the point; that the connection is lost is said elsewhere.
    }
  }

  async loadMoreRuns() {
    await this.loadRuns(this.state.runs.length + 50);
  }

  /** @param {string | null} id */
  workflow(id) {
    return this.state.catalog?.workflows.find((one) => one.id === id) ?? null;
  }

  // ------------------------------------------------------------------------------------------------------- messages

  /** @param {string} announcement for screen readers */
  announce(announcement) {
    this.update({ announcement });
  }

  /**
   * Show a message for some seconds.
   *
   * @param {string} text
   * @param {string} tone
   */
  toast(text, tone) {
    const id = Math.random();
    this.update({ toasts: [...this.state.toasts.slice(-3), { id, text, tone }] });
    setTimeout(() => this.dismiss(id), TOAST);
  }

  /** @param {number} id */
  dismiss(id) {
    this.update({ toasts: this.state.toasts.filter((toast) => toast.id !== id) });
  }

  // --------------------------------------------------------------------------------------------------------- places

  /** Show what the address names. */
  async followRoute() {
    const [page = "", id = null] = location.hash.replace(/^#\/?/, "").split("/");
    this.update({ sideOpen: false });
    if (page === "compare") return this.#showCompare(id);
    if (page === "reviews") return this.#showReviews(id);
    if ((page === "workflow" || page === "run") && id) return this.#showBench(page, id);
    const first = this.state.catalog?.workflows[0];
    this.update({ route: { page: "home", id: null } });
    if (first) location.replace(`#/workflow/${first.id}`);
  }

  /**
   * @param {"workflow" | "run"} page
   * @param {string} id
   */
  async #showBench(page, id) {
    const { bench } = this.state;
    this.update({ route: { page, id } });
    if (page === "run" && bench.run?.id !== id) await this.openRun(id);
    if (page === "workflow" && (bench.id !== id || bench.oldPicture)) await this.openWorkflow(id);
  }

  /** @param {string | null} id */
  async #showCompare(id) {
    this.update({ route: { page: "compare", id } });
    if (id) await this.comparison.open(id);
    else if (!this.state.compare.sides[0]?.workflow) this.#prepareCompare();
  }

  /** @param {string | null} id of a request, encoded */
  async #showReviews(id) {
    this.update({ route: { page: "reviews", id: id === null ? null : decodeURIComponent(id) } });
    await this.reviews.load();
  }

  #prepareCompare() {
    const { bench } = this.state;
    const side = { workflow: bench.id ?? "" };
    this.comparison.prepare(side, { ...side, changes: bench.changes }, { draft: { ...bench.draft } });
  }

  // ---------------------------------------------------------------------------------------------------------- bench

  /** @param {Partial<Bench>} patch */
  setBench(patch) {
    Object.assign(this.state.bench, patch);
    this.update();
  }

  /** @param {string} id */
  async openWorkflow(id) {
    const { draft } = this.state.bench;
    this.unfollow();
    const summary = this.workflow(id);
    this.update({ bench: { ...newBench(), draft, id, summary } });
    if (!summary && this.state.catalog) {
      this.setBench({
        problem: { kind: "not_found", message: "There is no such workflow. It may have been removed from its file." },
      });
      return;
    }
    await this.loadDetail();
  }

  /** Load the picture and the steps, with the changed options if there are some. */
  async loadDetail() {
    const { bench } = this.state;
    this.loads += 1;
    const load = this.loads;
    this.setBench({ loading: true });
    try {
      const detail = await this.#detail(bench);
      if (load !== this.loads) return;
      Object.assign(bench, { detail, problem: null, errors: new Map() });
      if (this.workflow(bench.id)) bench.summary = this.workflow(bench.id);
      if (
        bench.selected !== null &&
        !detail.graph.nodes.some((/** @type {{path?: string}} */ node) => node.path === bench.selected)
      )
        bench.selected = null;
    } catch (error) {
      if (load !== this.loads) return;
      this.#detailFailed(bench, error);
    }
    this.setBench({ loading: false });
  }

  /** @param {Bench} bench */
  #detail({ id, version, stage, changes }) {
    const about = { ...(version === null ? {} : { version }), ...(stage === null ? {} : { stage }) };
    if (Object.keys(changes).length) return ask("POST", `workflows/${id}/preview`, { ...about, changes });
    const query = new URLSearchParams(Object.entries(about).map(([name, value]) => [name, String(value)]));
    return ask("GET", `workflows/${id}?${query}`);
  }

  /**
   * @param {Bench} bench
   * @param {unknown} error
   */
  #detailFailed(bench, error) {
    if (error instanceof ApiError && error.kind === "options") {
      bench.errors = new Map([[placeOf(bench.changes, error), error.message]]);
    } else bench.problem = bench.summary?.problem ? null : problemOf(error);
  }

  /** @param {string} version */
  setVersion(version) {
    this.setBench({ version: Number(version), changes: {} });
    void this.loadDetail();
  }

  /** @param {string} stage */
  setStage(stage) {
    this.setBench({ stage: stage || null });
    void this.loadDetail();
  }

  /** The stage of a run if none was chosen. */
  defaultStage() {
    const served = this.state.bench.detail?.stages ?? [];
    return served.includes("process_input") ? "process_input" : (served[0] ?? "process_input");
  }

  /** @param {string | null} path of the step to show */
  select(path) {
    const { bench } = this.state;
    this.setBench({
      selected: path,
      span: path === null ? null : bench.span,
      panel: path === null ? bench.panel : "step",
    });
  }

  /** @param {Span} span */
  selectSpan(span) {
    this.setBench({ span: span.id, ...(span.path ? { selected: span.path, panel: "step" } : {}) });
  }

  /** The paths of the steps that the search finds; null if it is empty. */
  found() {
    const { bench } = this.state;
    if (!bench.query.trim() || !bench.detail) return null;
    const about = new Map(bench.detail.steps.map((step) => [step.path, step.doc]));
    const infos = bench.detail.graph.nodes.flatMap((node) =>
      node.path ? [{ ...node, path: node.path, doc: about.get(node.path) ?? "" }] : [],
    );
    return find(/** @type {import("penstock/types.js").StepInfo[]} */ (infos), bench.query);
  }

  openFound() {
    const [path] = this.found() ?? [];
    if (path === undefined) return;
    this.select(path);
    this.host.picture?.boxes.get(path)?.[0]?.focus();
  }

  // -------------------------------------------------------------------------------------------------------- options

  /**
   * @param {string} path
   * @param {"options" | "policy"} group
   * @param {string} name
   * @param {unknown} value
   */
  changeOption(path, group, name, value) {
    const { changes } = this.state.bench;
    const step = changes[path] ?? {};
    this.#setChanges({ ...changes, [path]: { ...step, [group]: { ...step[group], [name]: value } } });
  }

  /**
   * @param {string} path
   * @param {"options" | "policy"} group
   * @param {string} name
   */
  resetOption(path, group, name) {
    const { changes } = this.state.bench;
    const { [path]: step = {}, ...others } = changes;
    const { [name]: _, ...kept } = step[group] ?? {};
    const { [group]: __, ...rest } = step;
    const now = Object.keys(kept).length ? { ...rest, [group]: kept } : rest;
    this.#setChanges(Object.keys(now).length ? { ...others, [path]: now } : others);
  }

  resetOptions() {
    this.#setChanges({});
  }

  /**
   * @param {string} path
   * @param {"options" | "policy"} group
   * @param {string} name
   * @param {string} message
   */
  refuseOption(path, group, name, message) {
    this.setBench({ errors: new Map(this.state.bench.errors).set(`${path}\n${group}\n${name}`, message) });
  }

  /** @param {Changes} changes */
  #setChanges(changes) {
    this.setBench({ changes, errors: new Map() });
    clearTimeout(this.previewTimer);
    this.previewTimer = window.setTimeout(() => void this.loadDetail(), 250);
  }

  /** Compare the workflow as it is with the one with changed options, on what was written. */
  tryChanges() {
    const { bench } = this.state;
    const side = { workflow: bench.id ?? "", version: bench.version };
    const draft = bench.summary?.kind === "agent" ? chatDraft(bench) : { ...bench.draft };
    this.comparison.prepare({ ...side }, { ...side, changes: bench.changes }, { draft, stage: bench.stage });
    location.hash = "#/compare";
    if (draft.kind !== "file" && (draft.kind !== "text" || draft.text)) void this.comparison.start();
  }

  // ---------------------------------------------------------------------------------------------------------- input

  /** @param {Partial<Draft>} patch */
  setDraft(patch) {
    Object.assign(this.state.bench.draft, patch);
    this.setBench({ inputError: "" });
    keepDraft(this.state.bench.draft);
  }

  /** @param {File} file */
  async upload(file) {
    const { bench } = this.state;
    const limit = this.state.catalog?.limits.upload;
    if (limit && file.size > limit) {
      this.setBench({
        inputError: `${file.name} has ${file.size.toLocaleString("en")} bytes. The studio takes ${limit.toLocaleString("en")}; start it with a larger --max-upload.`,
      });
      return;
    }
    const { done, cancel } = upload(file, (share) => this.setBench({ uploading: { name: file.name, share } }));
    this.stopUpload = cancel;
    this.setBench({ uploading: { name: file.name, share: 0 }, inputError: "" });
    try {
      bench.draft.file = await done;
      this.announce(`${file.name} is uploaded.`);
    } catch (error) {
      if (!(error instanceof ApiError && error.kind === "cancelled"))
        bench.inputError = error instanceof Error ? error.message : String(error);
    }
    this.setBench({ uploading: null });
  }

  cancelUpload() {
    this.stopUpload();
  }

  // ----------------------------------------------------------------------------------------------------------- runs

  /** Run the workflow on what was written. */
  async run() {
    const { bench, catalog } = this.state;
    if (bench.summary?.kind === "agent") return this.send();
    if (isGoingOn(bench.run)) return;
    const stage = bench.stage ?? this.defaultStage();
    const kinds = kindsFor(
      bench.summary?.kind ?? "workflow",
      catalog?.stages.find((one) => one.name === stage),
    );
    try {
      await this.#begin(inputOf(bench.draft, kindOf(bench.draft, kinds)), stage);
    } catch (error) {
      this.#refused(error);
    }
  }

  /** Send a message to the agent. */
  async send() {
    const { bench } = this.state;
    const question = bench.draft.question;
    if (!question.trim() || isGoingOn(bench.run)) return;
    const chat = /** @type {ChatMessage[]} */ ([
      ...bench.chat,
      ...answerOf(bench.run),
      { role: "user", content: question },
    ]);
    try {
      await this.#begin({ kind: "conversation", messages: chat }, null);
      this.setBench({ chat });
      this.setDraft({ question: "" });
      document.getElementById("input-text")?.focus();
    } catch (error) {
      this.#refused(error);
    }
  }

  clearChat() {
    this.closeRun();
    this.setBench({ chat: [] });
  }

  /** @param {unknown} error */
  #refused(error) {
    const { bench } = this.state;
    if (error instanceof ApiError && error.kind === "options")
      bench.errors = new Map([[placeOf(bench.changes, error), error.message]]);
    else if (error instanceof ApiError || error instanceof DraftError) bench.inputError = error.message;
    else throw error;
    this.update();
  }

  /**
   * @param {import("./types.js").RunInput} input
   * @param {string | null} stage
   * @param {string | null} [parent]
   */
  async #begin(input, stage, parent = null) {
    const { bench } = this.state;
    const { id } = await ask("POST", "runs", {
      workflow: bench.id,
      input,
      changes: bench.changes,
      ...(stage === null ? {} : { stage }),
      ...(bench.version === null ? {} : { version: bench.version }),
    });
    this.#showRun(newRun(id), parent);
    history.replaceState(null, "", `#/run/${id}`);
    this.update({ route: { page: "run", id } });
    setTimeout(() => document.querySelector(".result .verdict")?.scrollIntoView({ block: "nearest" }), 100);
  }

  /**
   * @param {Run} run
   * @param {string | null} parent
   */
  #showRun(run, parent) {
    this.unfollow();
    this.state.bench.run?.replay?.pause();
    this.setBench({ run, parent, oldPicture: false, span: null, showAll: false, inputError: "", rows: newRowsState() });
    this.unfollow = this.follow(run, () => this.announce(`The run is over: ${statusOf(run).word}.`));
  }

  /**
   * Follow a run until it is over.
   *
   * @param {Run} run
   * @param {() => void} over
   * @returns {() => void} stops it
   */
  follow(run, over) {
    let stopped = false;
    const finish = async () => {
      const stored = await ask("GET", `runs/${run.id}`);
      complete(run, stored);
      this.update();
      if (stored.state !== "done" || stopped) return;
      stop();
      over();
    };
    const end = listen({
      url: `/api/runs/${run.id}/events`,
      names: EVENTS,
      event: (name, data) => {
        apply(run, name, data);
        this.update();
        if (name === "end" || name === "gap") finish().catch((error) => this.toast(error.message, "failed"));
      },
      poll: finish,
    });
    function stop() {
      stopped = true;
      end();
    }
    return stop;
  }

  /**
   * Open a run that was made before, or goes on.
   *
   * @param {string} id
   */
  async openRun(id) {
    try {
      /** @type {StoredRun} */
      const stored = await ask("GET", `runs/${id}`);
      const workflow = this.workflow(stored.workflow.id);
      const same = workflow !== null && (workflow.version === stored.workflow.version || workflow.kind === "preset");
      this.#benchFor(stored, same);
      const run = newRun(id);
      complete(run, stored);
      if (stored.state === "done") this.setBench({ run });
      else this.#showRun(run, null);
      if (!same) this.#showOld(stored);
      if (workflow) await this.loadDetail();
    } catch (error) {
      this.update({ bench: { ...newBench(), draft: this.state.bench.draft, problem: problemOf(error) } });
    }
  }

  /**
   * @param {StoredRun} stored
   * @param {boolean} same whether the workflow is still as it was
   */
  #benchFor(stored, same) {
    const { bench } = this.state;
    this.unfollow();
    bench.run?.replay?.pause();
    const agent = stored.workflow.kind === "agent";
    const kept = bench.id === stored.workflow.id ? { detail: bench.detail } : {};
    const draft = { ...bench.draft, ...draftOf(stored.input, agent) };
    const chat = agent ? (draft.messages ?? []) : [];
    const open = {
      ...newBench(),
      ...kept,
      id: stored.workflow.id,
      summary: this.workflow(stored.workflow.id),
      draft,
      chat,
    };
    this.update({
      bench: {
        ...open,
        stage: agent ? null : stored.stage,
        changes: same ? (stored.changes ?? {}) : {},
        dock: stored.file ? "rows" : "timeline",
      },
    });
  }

  /** @param {StoredRun} stored */
  #showOld(stored) {
    this.setBench({ oldPicture: true });
    if (!this.workflow(stored.workflow.id)) {
      this.toast(
        `${stored.workflow.name} is not open in this studio. Its run can be seen, but not repeated.`,
        "skipped",
      );
    }
  }

  /** @param {Row} row of the file */
  async openRow(row) {
    const { bench } = this.state;
    const input = bench.run?.stored?.input ?? { kind: "file", file: bench.draft.file?.id ?? "" };
    try {
      await this.#begin(
        { kind: "file", file: input.file ?? "", line: row.line },
        bench.summary?.kind === "agent" ? null : (bench.stage ?? this.defaultStage()),
        bench.run?.id ?? null,
      );
    } catch (error) {
      this.toast(error instanceof Error ? error.message : String(error), "failed");
    }
  }

  cancel() {
    const { run } = this.state.bench;
    if (run && isGoingOn(run))
      ask("POST", `runs/${run.id}/cancel`).catch((error) => this.toast(error.message, "failed"));
  }

  closeRun() {
    const { bench } = this.state;
    this.unfollow();
    bench.run?.replay?.pause();
    this.setBench({ run: null, parent: null, oldPicture: false, span: null });
    if (bench.id) location.hash = `#/workflow/${bench.id}`;
  }

  /** @param {string} dock */
  setDock(dock) {
    const { run } = this.state.bench;
    if (run && dock !== "replay") {
      run.replay?.pause();
      run.replay = null;
    }
    this.setBench({ dock });
  }

  /** @param {Partial<import("./rows-model.js").RowsState>} patch */
  setRows(patch) {
    Object.assign(this.state.bench.rows, patch);
    this.update();
  }

  /**
   * @param {Run} run
   * @returns {Replay | null} null if it has no trace
   */
  replayOf(run) {
    if (!run.replay && run.stored?.trace) run.replay = new Replay(run.stored.trace, () => this.update());
    return run.replay;
  }

  /** @param {ShortRun} run */
  async removeRun(run) {
    try {
      await ask("DELETE", `runs/${run.id}`);
      this.announce(`Deleted the run ${cut(run.title, 40)}.`);
      if (this.state.bench.run?.id === run.id) this.closeRun();
      await this.loadRuns();
    } catch (error) {
      this.toast(error instanceof Error ? error.message : String(error), "failed");
    }
  }

  async removeAllRuns() {
    if (!window.confirm("Delete all runs that are kept?")) return;
    await ask("DELETE", "runs").catch((error) => this.toast(error.message, "failed"));
    if (this.state.bench.run) this.closeRun();
    await this.loadRuns();
  }
}

/**
 * Where a refused option stands in the form; below the whole form if the server did not say which one it is.
 *
 * @param {Changes} changes
 * @param {ApiError} error
 */
function placeOf(changes, { path, option }) {
  if (!path || !option) return `${path ?? ""}\n\n`;
  const group = option in (changes[path]?.policy ?? {}) ? "policy" : "options";
  return `${path}\n${group}\n${option}`;
}

/**
 * The answer of a run, as it stands in the conversation.
 *
 * @param {Run | null} run
 * @returns {ChatMessage[]}
 */
function answerOf(run) {
  return run?.stored && run.text ? [{ role: "assistant", content: run.text }] : [];
}

/** @param {Bench} bench */
function chatDraft(bench) {
  const messages = bench.chat.length ? bench.chat : [{ role: "user", content: bench.draft.question }];
  return { ...newDraft(), kind: /** @type {const} */ ("conversation"), messages };
}

/** @param {Draft} draft is kept while the tab is open, so that a reload loses nothing */
function keepDraft({ kind, text, messages, json, question }) {
  try {
    sessionStorage.setItem(
      KEPT_DRAFT,
      JSON.stringify({ kind: kind === "file" ? "text" : kind, text, messages, json, question }),
    );
  } catch {
    // Too long, or not allowed: then it is not kept.
  }
}

/** @returns {Partial<Draft>} */
function keptDraft() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT_DRAFT) ?? "{}");
  } catch {
    return {};
  }
}
