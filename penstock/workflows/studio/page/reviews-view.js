/** The reviews: requests that wait for people beside the one that is shown, with its calls and forms to decide. */

import { html, nothing } from "lit-html";
import { table } from "penstock/details.js";
import { visible } from "penstock/format.js";
import { decisionWords, fieldsOf, pretty, standOf, timesOf, undecided, verdictField } from "./reviews-model.js";
import { tabPanel, tabRow } from "./tabs.js";
import { cut } from "./words.js";

/** @typedef {import("./studio.js").Studio} Studio */
/** @typedef {import("./reviews.js").Reviews} Reviews */
/** @typedef {import("./reviews-model.js").WaitingRun} WaitingRun */
/** @typedef {import("./reviews-model.js").WaitingCall} WaitingCall */
/** @typedef {import("./reviews-model.js").AnswerField} AnswerField */
/** @typedef {Event & {currentTarget: HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement}} Written */

/** @param {Studio} studio */
export function reviewsView({ reviews }) {
  const { about, state } = reviews;
  if (!about)
    return html`<p class="none">This studio has no store of reviews. Start it with one: <code>penstock studio --reviews runs.db</code></p>`;
  const tabs = [
    { id: "waiting", label: "Waiting", count: state.more ? `${state.waiting}+` : state.waiting },
    { id: "running", label: "Going on" },
    { id: "ended", label: "Ended" },
  ];
  return html`<div class="reviews">
    <section class="review-list" aria-label="Requests">
      <h1 id="title" tabindex="-1">Reviews</h1>
      <p class="note">${visible(about.store)}</p>
      ${tabRow("Requests by state", tabs, state.status, (status) => reviews.choose(/** @type {"waiting"} */ (status)))}
      ${tabPanel("Requests by state", state.status, list(reviews))}
    </section>
    <section class="review-detail" aria-label="Request">
      ${[state.problem, state.missing].filter(Boolean).map((problem) => html`<p class="error" role="alert">${visible(problem)}</p>`)}
      ${state.run ? detail(reviews, state.run) : html`<p class="none">Choose a request.</p>`}
    </section>
  </div>`;
}

/** @param {Reviews} reviews */
function list(reviews) {
  const { runs, run, following, status } = reviews.state;
  const none = {
    waiting: "Nothing waits for a decision.",
    running: "No process goes on with one.",
    ended: "None yet.",
  };
  return html`${runs.length === 0 ? html`<p class="none">${none[status]}</p>` : nothing}
    <ul>${runs.map((one) => html`<li>${entry(one, one.run_id === run?.run_id)}</li>`)}</ul>
    ${following ? html`<button type="button" class="quiet small" @click=${() => void reviews.loadMore()}>More</button>` : nothing}`;
}

/**
 * @param {WaitingRun} run
 * @param {boolean} chosen
 */
function entry(run, chosen) {
  const tools = run.calls.map((call) => call.tool).join(", ");
  return html`<a href="#/reviews/${encodeURIComponent(run.run_id)}" class="entry" aria-current=${chosen ? "true" : nothing}>
    <span class="name"><b>${visible(tools || "no call")}</b> <span class="tag">${visible(run.agent)}</span></span>
    ${run.question ? html`<span class="asked">${visible(cut(run.question, 90))}</span>` : nothing}
    <span class="sub">${timesOf(run, Date.now())}</span>
  </a>`;
}

/**
 * @param {Reviews} reviews
 * @param {WaitingRun} run
 */
function detail(reviews, run) {
  const date = (/** @type {string | null} */ at) => (at === null ? null : new Date(at).toLocaleString());
  return html`<article aria-label="Request of ${visible(run.agent)}">
    <header><h2>${visible(run.agent)}</h2> <span class="tag">${run.status === "running" ? "going on" : run.status}</span>
      <span class="note">${timesOf(run, Date.now())}</span></header>
    ${run.question ? said("The user asks", run.question) : nothing}
    ${run.text ? said("The answer so far", run.text) : nothing}
    ${run.calls.map((call) => callView(reviews, run, call))}
    ${ending(reviews, run)}
    <details><summary>About the request</summary>${table("", [
      ["run", run.run_id],
      ["thread", run.thread_id],
      ["owner", run.resource_id],
      ["since", date(run.created_at)],
      [run.status === "running" ? "may be taken over" : "expires", date(run.due_at)],
    ])}</details>
  </article>`;
}

/**
 * @param {string} title
 * @param {string} text
 */
function said(title, text) {
  return html`<figure class="io"><figcaption>${title} <span class="note">as the guards left it</span></figcaption>
    <div class="text" dir="auto" tabindex="0" role="group" aria-label=${title}>${visible(text)}</div></figure>`;
}

/**
 * @param {Reviews} reviews
 * @param {WaitingRun} run
 * @param {WaitingCall} call
 */
function callView(reviews, run, call) {
  const { decision } = call;
  const tone = !decision ? "running" : decision.verdict === "reject" ? "tripped" : "passed";
  const open = decision === null && run.status === "waiting" && call.kind !== "run";
  return html`<section class="waiting-call" data-tone=${tone} aria-label="${call.kind === "question" ? "Question" : "Call"} of ${visible(call.tool)}">
    <h3><code>${visible(call.tool)}</code> <span class="note">${standOf(call)}${call.kind === "question" ? nothing : ` · ${visible(call.call_id)}`}</span></h3>
    ${call.reason ? html`<p class="asks" dir="auto">${visible(call.reason)}</p>` : nothing}
    ${call.kind === "question" ? shown(call.arguments) : code("Arguments", call.arguments)}
    ${decision ? decided(call) : nothing}
    ${open ? form(reviews, call) : nothing}
    ${call.inner ? html`<p><a href="#/reviews/${encodeURIComponent(call.inner)}">Decide about the request of this agent</a></p>` : nothing}
  </section>`;
}

/** @param {unknown} values that a step shows with its question */
function shown(values) {
  if (values === null || typeof values !== "object" || Array.isArray(values)) return code("Shown", values);
  return Object.entries(values).map(([name, value]) =>
    typeof value === "string"
      ? said(name, value)
      : html`<p class="fact"><span class="label">${visible(name)}</span> ${visible(Array.isArray(value) ? value.map(pretty).join(", ") : pretty(value))}</p>`,
  );
}

/**
 * @param {string} title
 * @param {unknown} value
 */
function code(title, value) {
  return html`<figure class="io"><figcaption>${title}</figcaption>
    <div class="text code" tabindex="0" role="group" aria-label=${title}>${visible(pretty(value))}</div></figure>`;
}

/** @param {WaitingCall} call that was decided about */
function decided({ decision }) {
  if (!decision) return nothing;
  return html`<p class="decision">${visible(decisionWords(decision, Date.now()))}</p>
    ${decision.arguments === undefined ? nothing : code("With other arguments", decision.arguments)}
    ${decision.verdict === "answer" ? code("Answer", decision.value) : nothing}`;
}

/**
 * @param {Reviews} reviews
 * @param {WaitingCall} call
 */
function form(reviews, call) {
  const { error } = reviews.draft(call);
  return html`<div class="decide">
    ${call.kind === "approval" ? approval(reviews, call) : answer(reviews, call)}
    ${error ? html`<p class="error" role="alert">${visible(error)}</p>` : nothing}
  </div>`;
}

/**
 * @param {Reviews} reviews
 * @param {WaitingCall} call
 */
function approval(reviews, call) {
  const { text, reason } = reviews.draft(call);
  const { busy } = reviews.state;
  const reject = (/** @type {Event} */ event) => {
    event.preventDefault();
    void reviews.reject(call);
  };
  return html`${
    text === null
      ? nothing
      : html`<label class="field">Other arguments <span class="note">the guards judge them before the tool runs</span>
        <textarea class="code" rows=${Math.min(16, text.split("\n").length + 1)} spellcheck="false" .value=${text}
          @input=${(/** @type {Written} */ event) => reviews.write(call, { text: event.currentTarget.value })}></textarea></label>`
  }
    <div class="buttons">
      <button type="button" class="primary approve" ?disabled=${busy} @click=${() => void reviews.approve(call)}>Approve${text === null ? "" : " with these"}</button>
      <button type="button" class="quiet edit" aria-pressed=${text !== null} @click=${() => reviews.editArguments(call)}>${text === null ? "Edit arguments" : "Keep the arguments"}</button>
    </div>
    <form class="refusal" @submit=${reject}>
      <label class="field"><span class="sr-only">Reason for the model</span>
        <input class="reason" dir="auto" placeholder="Reason for the model" .value=${reason}
          @input=${(/** @type {Written} */ event) => reviews.write(call, { reason: event.currentTarget.value })}></label>
      <button type="submit" ?disabled=${busy}>Reject</button>
    </form>`;
}

/**
 * @param {Reviews} reviews
 * @param {WaitingCall} call a question, or a call that the application runs
 */
function answer(reviews, call) {
  const fields = fieldsOf(call.schema);
  const verdict = verdictField(fields);
  const { busy } = reviews.state;
  const rest = fields.filter((field) => field !== verdict);
  return html`${rest.map((field) => fieldRow(reviews, call, field))}
    <div class="buttons">${
      verdict
        ? html`<button type="button" class="primary approve" ?disabled=${busy} @click=${() => void reviews.answer(call, { decision: "approve" })}>Approve</button>
        <button type="button" ?disabled=${busy} @click=${() => void reviews.answer(call, { decision: "reject" })}>Reject</button>`
        : html`<button type="button" class="primary approve" ?disabled=${busy} @click=${() => void reviews.answer(call)}>${call.kind === "result" ? "Give this result" : "Answer"}</button>`
    }</div>`;
}

/**
 * @param {Reviews} reviews
 * @param {WaitingCall} call
 * @param {AnswerField} field
 */
function fieldRow(reviews, call, field) {
  const name = field.name || (call.kind === "result" ? "Result" : "Answer");
  return html`<label class="field">${visible(name)} <span class="note">${visible(field.doc || hint(field))}</span>
    ${control(reviews, call, field)}</label>`;
}

/** @param {AnswerField} field */
function hint({ kind, required }) {
  return [kind === "json" ? "JSON" : "", required ? "" : "may be empty"].filter(Boolean).join(", ");
}

/**
 * @param {Reviews} reviews
 * @param {WaitingCall} call
 * @param {AnswerField} field
 */
function control(reviews, call, { name, kind, choices }) {
  const { written } = reviews.draft(call);
  const value = written[name];
  const set = (/** @type {unknown} */ to) => reviews.write(call, { written: { ...written, [name]: to } });
  const typed = (/** @type {Written} */ event) => set(event.currentTarget.value);
  if (kind === "choice" || kind === "bool") {
    const all = kind === "bool" ? [true, false] : choices;
    return html`<select @change=${(/** @type {Written} */ event) => set(event.currentTarget.value === "" ? undefined : all[Number(event.currentTarget.value)])}>
      <option value="" .selected=${value === undefined}></option>
      ${all.map((one, at) => html`<option value=${at} .selected=${one === value}>${visible(kind === "bool" ? (one ? "yes" : "no") : pretty(one))}</option>`)}
    </select>`;
  }
  if (kind === "number")
    return html`<input type="text" inputmode="decimal" .value=${String(value ?? "")} @input=${typed}>`;
  return html`<textarea class=${kind === "json" ? "code" : nothing} rows=${name === "reason" ? 1 : 3} dir="auto" .value=${String(value ?? "")} @input=${typed}></textarea>`;
}

/**
 * @param {Reviews} reviews
 * @param {WaitingRun} run
 */
function ending(reviews, run) {
  if (run.status === "ended") return nothing;
  const { by, goOn } = reviews.state;
  const left = undecided(run).length;
  const words = run.agent.startsWith("gateway/")
    ? "It goes through when its client sends it again."
    : `The application goes on: agent.resume("${run.run_id}")`;
  return html`<footer class="ending">
    ${
      run.can_go_on
        ? run.here
          ? html`<button type="button" class="primary go-on" @click=${() => void reviews.goOn()}>Go on here</button>
          <span class="note">${left ? "Its time is over: the model is told that nobody has decided." : "All is decided."}</span>`
          : html`<p class="note">${left ? "Its time is over." : "All is decided."} ${visible(words)}</p>`
        : html`${reviews.about?.fixed ? html`<p class="note">You decide as ${visible(by)}.</p>` : html`<label class="name-field">Decide as <input .value=${by} @input=${(/** @type {Written} */ event) => reviews.setName(event.currentTarget.value)}></label>`}
        ${run.here ? html`<label><input type="checkbox" .checked=${goOn} @change=${(/** @type {Event & {currentTarget: HTMLInputElement}} */ event) => reviews.set({ goOn: event.currentTarget.checked })}> go on with it here when all is decided</label>` : nothing}`
    }
  </footer>`;
}
