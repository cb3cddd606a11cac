/** The state of a comparison, and what a reader can do with it. */

import { ask } from "./api.js";
import { draftOf, inputOf, kindOf, kindsFor, newDraft } from "./input-model.js";
import { problemOf } from "./problem.js";
import { newRun } from "./run-model.js";

/** @typedef {import("./studio.js").Studio} Studio */
/** @typedef {import("./input-model.js").Draft} Draft */
/** @typedef {import("./run-model.js").Run} Run */
/** @typedef {import("./types.js").Changes} Changes */
/** @typedef {import("./types.js").Problem} Problem */

/**
 * @typedef {object} Side
 * @property {string} workflow its id, or ""
 * @property {number | null} version null for the newest one
 * @property {Changes} changes
 * @property {import("./types.js").Detail | null} detail
 * @property {Problem | null} problem
 *
 * @typedef {{same: boolean, text: string}} Difference
 *
 * @typedef {object} CompareState
 * @property {string | null} id
 * @property {Side[]} sides two
 * @property {Draft} draft
 * @property {string | null} stage
 * @property {Run[] | null} runs two
 * @property {{diff: (Difference & {svg: string | null}) | null, trace: Difference | null} | null} result
 * @property {string} error
 */

/** @returns {CompareState} */
export function newCompareState() {
  return {
    id: null,
    sides: [newSide(), newSide()],
    draft: newDraft(),
    stage: null,
    runs: null,
    result: null,
    error: "",
  };
}

/** @returns {Side} */
function newSide() {
  return { workflow: "", version: null, changes: {}, detail: null, problem: null };
}

export class Comparison {
  /** @param {Studio} studio */
  constructor(studio) {
    this.studio = studio;
    /** @type {(() => void)[]} */
    this.following = [];
  }

  get state() {
    return this.studio.state.compare;
  }

  /** @param {Partial<CompareState>} patch */
  set(patch) {
    Object.assign(this.state, patch);
    this.studio.update();
  }

  /** @param {Partial<Draft>} patch */
  setDraft(patch) {
    Object.assign(this.state.draft, patch);
    this.set({ error: "" });
  }

  /**
   * Fill in both sides, for example with a workflow as it is and with changed options.
   *
   * @param {Partial<Side>} left
   * @param {Partial<Side>} right
   * @param {Partial<CompareState>} [more]
   */
  prepare(left, right, more = {}) {
    this.#unfollow();
    this.set({
      ...newCompareState(),
      ...more,
      sides: [
        { ...newSide(), ...left },
        { ...newSide(), ...right },
      ],
    });
    void this.#load(0);
    void this.#load(1);
  }

  /**
   * @param {number} at
   * @param {Partial<Side>} patch
   */
  setSide(at, patch) {
    const side = this.state.sides[at];
    if (!side) return;
    Object.assign(side, patch, { problem: null });
    this.#unfollow();
    this.set({ runs: null, result: null, id: null });
    void this.#load(at);
  }

  /** @param {number} at */
  async #load(at) {
    const side = this.state.sides[at];
    if (!side?.workflow) return;
    const { workflow, version, changes } = side;
    try {
      const body = { changes, ...(version === null ? {} : { version }) };
      side.detail = await ask("POST", `workflows/${workflow}/preview`, body);
    } catch (error) {
      side.problem = problemOf(error);
    }
    this.studio.update();
  }

  async start() {
    const { sides, draft, stage } = this.state;
    const kinds = kindsFor("workflow", undefined);
    try {
      const [left, right] = sides.map(({ workflow, version, changes }) => ({
        workflow,
        changes,
        ...(version === null ? {} : { version }),
      }));
      const input = inputOf(draft, kindOf(draft, kinds));
      const { id, runs } = await ask("POST", "compare", { left, right, input, ...(stage ? { stage } : {}) });
      this.set({ error: "" });
      this.#show(id, runs);
      history.replaceState(null, "", `#/compare/${id}`);
    } catch (error) {
      this.set({ error: error instanceof Error ? error.message : String(error) });
    }
  }

  /**
   * Compare two runs that are over.
   *
   * @param {string} left id of a run
   * @param {string} right
   */
  async compareRuns(left, right) {
    try {
      const { id } = await ask("POST", "compare", { runs: [left, right] });
      location.hash = `#/compare/${id}`;
    } catch (error) {
      this.studio.toast(error instanceof Error ? error.message : String(error), "failed");
    }
  }

  /**
   * Show a comparison that was made before.
   *
   * @param {string} id
   */
  async open(id) {
    if (this.state.id === id) return;
    try {
      const { runs } = await ask("GET", `compare/${id}`);
      const [left, right] = await Promise.all(runs.map((/** @type {string} */ run) => ask("GET", `runs/${run}`)));
      const side = (/** @type {import("./types.js").StoredRun} */ run) => ({
        workflow: run.workflow.id,
        version: run.workflow.version,
        changes: run.changes ?? {},
      });
      this.prepare(side(left), side(right), {
        draft: { ...newDraft(), ...draftOf(left.input, false) },
        stage: left.stage,
      });
      this.#show(id, runs);
    } catch (error) {
      this.set({ error: error instanceof Error ? error.message : String(error) });
    }
  }

  /**
   * @param {string} id
   * @param {string[]} ids of both runs
   */
  #show(id, ids) {
    this.#unfollow();
    const runs = ids.map(newRun);
    this.set({ id, runs, result: null });
    this.following = runs.map((run) => this.studio.follow(run, () => void this.#finished(id, runs)));
  }

  /**
   * @param {string} id
   * @param {Run[]} runs
   */
  async #finished(id, runs) {
    this.studio.update();
    if (runs.some((run) => !run.stored) || this.state.id !== id) return;
    for (let attempt = 0; attempt < 20; attempt += 1) {
      const result = await ask("GET", `compare/${id}`);
      if (this.state.id !== id) return;
      this.set({ result });
      if (result.state === "done") break;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    const told = runs.map((run) => run.status);
    this.studio.announce(`Both runs are over. Left: ${told[0]}, right: ${told[1]}.`);
  }

  cancel() {
    for (const run of this.state.runs ?? []) void ask("POST", `runs/${run.id}/cancel`).catch(() => {});
  }

  #unfollow() {
    for (const stop of this.following) stop();
    this.following = [];
  }
}
