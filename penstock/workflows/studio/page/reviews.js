/** The state of the reviews, and what a reader can do with requests that wait. They are asked for again all the time. */

import { count } from "penstock/format.js";
import { ask } from "./api.js";
import { answerOf, beside, fieldsOf, parsed, pretty } from "./reviews-model.js";

/** @typedef {import("./studio.js").Studio} Studio */
/** @typedef {import("./reviews-model.js").WaitingRun} WaitingRun */
/** @typedef {import("./reviews-model.js").WaitingCall} WaitingCall */
/** @typedef {"waiting" | "running" | "ended"} Status */

/**
 * @typedef {object} ReviewDraft What was written about a call, before it is sent.
 * @property {string} reason
 * @property {string | null} text the arguments that are edited; null if they are not
 * @property {Record<string, unknown>} written the answer, by field
 * @property {string} error
 *
 * @typedef {object} ReviewsState
 * @property {Status} status of the requests that are listed
 * @property {WaitingRun[]} runs
 * @property {string | null} following where the next page begins
 * @property {WaitingRun | null} run
 * @property {string} problem why there is no list
 * @property {string} missing why there is no request
 * @property {number} waiting how many requests wait
 * @property {boolean} more whether more wait than are counted
 * @property {Record<string, ReviewDraft>} drafts by the ids of the run and the call
 * @property {string} by who decides
 * @property {boolean} goOn whether an agent of this studio goes on when all is decided
 * @property {boolean} busy
 */

const POLL = 2000; // milliseconds between two looks while the list is shown
const SELDOM = 5; // so many times as long while it is not
const KEPT_NAME = "penstock-reviewer";

/** @returns {ReviewsState} */
export function newReviewsState() {
  return {
    status: "waiting",
    runs: [],
    following: null,
    run: null,
    problem: "",
    missing: "",
    waiting: 0,
    more: false,
    drafts: {},
    by: "",
    goOn: true,
    busy: false,
  };
}

/** @returns {ReviewDraft} */
function newDraft() {
  return { reason: "", text: null, written: {}, error: "" };
}

export class Reviews {
  /** @param {Studio} studio */
  constructor(studio) {
    this.studio = studio;
    this.turn = 0;
  }

  get state() {
    return this.studio.state.reviews;
  }

  /** What the server says of the store; null if it has none. */
  get about() {
    return this.studio.state.catalog?.reviews ?? null;
  }

  /** @param {Partial<ReviewsState>} patch */
  set(patch) {
    Object.assign(this.state, patch);
    this.studio.update();
  }

  /** Look for new requests from now on: often while they are shown, seldom otherwise, never in a hidden tab. */
  start() {
    const kept = this.about?.fixed ? null : sessionStorage.getItem(KEPT_NAME);
    this.set({ by: kept ?? this.about?.by ?? "" });
    setInterval(() => {
      this.turn += 1;
      if (document.hidden || !this.about || this.state.busy) return;
      if (this.shown || this.turn % SELDOM === 0) void this.load();
    }, POLL);
    void this.load();
  }

  get shown() {
    return this.studio.state.route.page === "reviews";
  }

  /** Ask for the list, and for the request that is shown. */
  async load() {
    if (!this.about) return;
    const { status } = this.state;
    try {
      const listed = await ask("GET", `reviews?status=${status}`);
      const waiting = status === "waiting" ? listed : await ask("GET", "reviews?status=waiting");
      if (status !== this.state.status) return;
      this.#tell(waiting.runs.length);
      this.set({ ...listed, waiting: waiting.runs.length, more: waiting.following !== null, problem: "" });
      if (this.shown) await this.#refresh();
    } catch (error) {
      this.set({ problem: messageOf(error), runs: [], following: null, waiting: 0 });
    }
  }

  /** Show the request that the address names, as it is now; the first of the list if it names none. */
  async #refresh() {
    const { id } = this.studio.state.route;
    const first = this.state.runs[0];
    if (id) await this.open(id);
    else if (first) location.replace(`#/reviews/${first.run_id}`);
  }

  /** @param {number} now how many requests wait */
  #tell(now) {
    if (now > this.state.waiting) this.studio.announce(`${count(now, "request")} waiting for a decision.`);
  }

  /** Ask for the next page. */
  async loadMore() {
    const { status, following, runs } = this.state;
    if (following === null) return;
    try {
      const page = await ask("GET", `reviews?status=${status}&after=${encodeURIComponent(following)}`);
      this.set({ runs: [...runs, ...page.runs], following: page.following });
    } catch (error) {
      this.studio.toast(messageOf(error), "failed");
    }
  }

  /** @param {Status} status of the requests to list */
  choose(status) {
    this.set({ status, runs: [], following: null });
    void this.load();
  }

  /** @param {string} id of the request to show */
  async open(id) {
    try {
      const run = await ask("GET", `reviews/${encodeURIComponent(id)}`);
      if (this.studio.state.route.id === id) this.set({ run, missing: "" });
    } catch (error) {
      this.set({ run: null, missing: messageOf(error) });
    }
  }

  /** @param {number} step to the next request (1), or the one before (-1) */
  move(step) {
    const id = beside(this.state.runs, this.state.run?.run_id ?? null, step);
    if (id) location.hash = `#/reviews/${id}`;
  }

  // -------------------------------------------------------------------------------------------------------- deciding

  /** @param {string} by who decides */
  setName(by) {
    sessionStorage.setItem(KEPT_NAME, by);
    this.set({ by });
  }

  /**
   * @param {WaitingCall} call of the request that is shown
   * @returns {ReviewDraft}
   */
  draft(call) {
    return this.state.drafts[this.#key(call)] ?? newDraft();
  }

  /**
   * @param {WaitingCall} call
   * @param {Partial<ReviewDraft>} patch
   */
  write(call, patch) {
    const { drafts } = this.state;
    this.set({ drafts: { ...drafts, [this.#key(call)]: { ...this.draft(call), error: "", ...patch } } });
  }

  /** @param {WaitingCall} call */
  #key(call) {
    return `${this.state.run?.run_id}\n${call.call_id}`;
  }

  /** @param {WaitingCall} call whose arguments are to be edited, or no more */
  editArguments(call) {
    this.write(call, { text: this.draft(call).text === null ? pretty(call.arguments) : null });
  }

  /** @param {WaitingCall} call */
  async approve(call) {
    const { text } = this.draft(call);
    await this.#decide(call, "approve", () => (text === null ? {} : { arguments: parsed(text, "What you wrote") }));
  }

  /** @param {WaitingCall} call */
  async reject(call) {
    await this.#decide(call, "reject", () => ({ reason: this.draft(call).reason }));
  }

  /**
   * @param {WaitingCall} call
   * @param {Record<string, unknown>} [chosen] fields that a button stands for
   */
  async answer(call, chosen = {}) {
    const { written } = this.draft(call);
    await this.#decide(call, "answer", () => ({ value: answerOf(fieldsOf(call.schema), { ...written, ...chosen }) }));
  }

  /**
   * @param {WaitingCall} call
   * @param {"approve" | "reject" | "answer"} verdict
   * @param {() => Record<string, unknown>} body makes the rest of the request
   */
  async #decide(call, verdict, body) {
    const { run, by, busy } = this.state;
    if (!run || busy) return;
    this.set({ busy: true });
    try {
      const sent = { call: call.call_id, by, ...body() };
      const decided = await ask("POST", `reviews/${encodeURIComponent(run.run_id)}/${verdict}`, sent);
      this.set({ run: decided, busy: false });
      const word = { approve: "Approved", reject: "Rejected", answer: "Answered" }[verdict];
      this.studio.toast(`${word}: ${call.tool}.`, verdict === "reject" ? "tripped" : "passed");
      if (decided.can_go_on && decided.here && this.state.goOn) await this.goOn();
      else await this.load();
    } catch (error) {
      this.set({ busy: false });
      this.write(call, { error: messageOf(error) });
    }
  }

  /** Let the agent of this studio go on with the request that is shown, and show its run. */
  async goOn() {
    const { run } = this.state;
    if (!run) return;
    try {
      const { id } = await ask("POST", `reviews/${encodeURIComponent(run.run_id)}/resume`, {});
      location.hash = `#/run/${id}`;
    } catch (error) {
      this.studio.toast(messageOf(error), "failed");
      await this.load();
    }
  }
}

/** @param {unknown} error */
function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}
