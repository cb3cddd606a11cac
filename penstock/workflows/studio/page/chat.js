/** A chat with an agent: what was said, the answer as it arrives, each tool call, and how much text is held back. */

import { html, nothing } from "lit-html";
import { count, duration, visible } from "penstock/format.js";
import { callView } from "./agent-view.js";
import { problemView } from "./problem.js";
import { heldNote } from "./result.js";
import { isGoingOn, statusOf, timesOf } from "./run-model.js";

/** @typedef {import("./run-model.js").Run} Run */
/** @typedef {import("./types.js").ChatMessage} ChatMessage */
/** @typedef {import("./types.js").Span} Span */

/**
 * @typedef {object} ChatProps
 * @property {ChatMessage[]} messages said before, without the answer of the run
 * @property {Run | null} run
 * @property {string} question
 * @property {(question: string) => void} write
 * @property {() => void} send
 * @property {() => void} cancel
 * @property {() => void} clear
 * @property {(span: Span) => void} select
 * @property {boolean} reviewed whether the studio shows requests that wait
 */

/** @param {ChatProps} props */
export function chatView(props) {
  const { messages, run, question, write, send, cancel, clear } = props;
  const busy = isGoingOn(run);
  return html`<div class="chat">
    <ol class="said" role="log" aria-label="Conversation" tabindex="0">
      ${messages.length === 0 && !run ? html`<li class="none">Write to the agent. Each of its steps and tool calls will be shown.</li>` : nothing}
      ${messages.map(bubble)}
      ${run ? answer(run, props) : nothing}
    </ol>
    <form class="ask" @submit=${submit}>
      <label class="field"><span class="sr-only">Message to the agent</span>
        <textarea id="input-text" rows="2" dir="auto" placeholder="Message to the agent" .value=${question}
          @input=${(/** @type {Event & {currentTarget: HTMLTextAreaElement}} */ event) => write(event.currentTarget.value)}
          @keydown=${(/** @type {KeyboardEvent} */ event) => event.key === "Enter" && !event.shiftKey && !event.isComposing && submit(event)}></textarea></label>
      <div class="buttons">
        ${
          busy
            ? html`<button type="button" @click=${cancel}>Cancel</button>`
            : html`<button type="submit" class="primary" ?disabled=${question.trim() === ""}>Send</button>`
        }
        ${messages.length && !busy ? html`<button type="button" class="quiet" @click=${clear}>New conversation</button>` : nothing}
      </div>
    </form>
  </div>`;

  /** @param {Event} event */
  function submit(event) {
    event.preventDefault();
    send();
  }
}

/** @param {ChatMessage} message */
function bubble({ role, content }) {
  return html`<li class="bubble" data-role=${role}><span class="who">${visible(role)}</span>
    <p class="text" dir="auto">${visible(typeof content === "string" ? content : JSON.stringify(content))}</p></li>`;
}

/**
 * @param {Run} run
 * @param {ChatProps} props
 */
function answer(run, { select, reviewed }) {
  const { word, tone } = statusOf(run);
  const tripwire = run.stored?.output?.tripwire ?? run.stored?.trace?.tripwire;
  return html`<li class="bubble" data-role="assistant">
    <span class="who">assistant ${heldNote(run.held)}</span>
    ${run.stored?.agent ? callsMade(run, run.stored.agent.tool_calls, select) : callsOf(run).map((span) => call(span, select))}
    ${run.text ? html`<p class="text" dir="auto">${visible(run.text)}${isGoingOn(run) ? html`<span class="caret" aria-hidden="true"></span>` : nothing}</p>` : nothing}
    ${tripwire ? html`<p class="tripwire"><b>${visible(tripwire.processor_id)}</b> stopped it: ${visible(tripwire.reason)}</p>` : nothing}
    ${run.error && run.error.kind !== "cancelled" ? problemView(run.error) : nothing}
    ${run.status === "suspended" ? waits(run, reviewed) : nothing}
    ${run.retracted ? html`<p class="note">A text that had left was taken back.</p>` : nothing}
    <p class="state" data-tone=${tone}>${word}${timesOf(run).map(({ text, why }) => html` · <span title=${why}>${text}</span>`)}${stepsOf(run)}</p>
  </li>`;
}

/**
 * @param {Run} run
 * @param {boolean} reviewed
 */
function waits({ stored }, reviewed) {
  const id = stored?.agent?.run_id;
  return html`<p class="note">It waits for a decision${
    reviewed && id ? html`: <a href="#/reviews/${encodeURIComponent(id)}">review it</a>` : nothing
  }.</p>`;
}

/** @param {Run} run */
function stepsOf(run) {
  const steps = run.stored?.agent?.steps ?? run.spans.filter((span) => span.kind === "model_step").length;
  return steps ? ` · ${count(steps, "model step")}` : "";
}

/**
 * The tool calls of a run that is over: what the model asked for and what the tool said, before and after the guards.
 *
 * @param {Run} run
 * @param {import("./types.js").ToolCall[]} made
 * @param {(span: Span) => void} select
 */
function callsMade(run, made, select) {
  const spans = run.spans.filter((span) => span.kind === "tool").sort((a, b) => a.at - b.at);
  return made.map((one) => {
    const at = spans.findIndex((span) => span.name === one.name);
    return callView(one, at < 0 ? undefined : spans.splice(at, 1)[0], select);
  });
}

/**
 * Tool calls, those that go on, too.
 *
 * @param {Run} run
 * @returns {(Span | import("./run-model.js").Started)[]}
 */
function callsOf(run) {
  return [
    ...run.spans.filter((span) => span.kind === "tool").sort((a, b) => a.at - b.at),
    ...run.running.filter((one) => one.kind === "tool"),
  ];
}

/**
 * @param {Span | import("./run-model.js").Started} span
 * @param {(span: Span) => void} select
 */
function call(span, select) {
  if (!("status" in span))
    return html`<p class="call" data-tone="running"><code>${visible(span.name)}</code> is running…</p>`;
  return html`<button type="button" class="call" data-tone=${span.status} @click=${() => select(span)}>
    Tool <code>${visible(span.name)}</code> <span>${span.status === "failed" ? `failed: ${visible(span.error ?? "")}` : duration(span.seconds)}</span></button>`;
}
