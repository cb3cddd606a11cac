/** Where a reader writes what a workflow is run on: a text, a conversation, a file of rows, a stream, a value, an error. */

import { html, nothing } from "lit-html";
import { count, visible } from "penstock/format.js";
import { bytes } from "./words.js";

/** @typedef {import("./input-model.js").Draft} Draft */
/** @typedef {import("./input-model.js").InputKind} InputKind */
/** @typedef {import("./types.js").ChatMessage} ChatMessage */

/**
 * @typedef {object} InputProps
 * @property {Draft} draft
 * @property {(patch: Partial<Draft>) => void} change
 * @property {{name: string, share: number} | null} uploading
 * @property {(file: File) => void} upload
 * @property {() => void} cancelUpload
 * @property {number} [rows] the height of a text
 */

const ROLES = ["user", "assistant", "system"];
const KIND_VIEWS = {
  text: textView,
  conversation: conversationView,
  file: fileView,
  chunks: chunksView,
  value: valueView,
  error: errorView,
};

/**
 * @param {InputKind} kind any but `chat`, which has a view of its own
 * @param {InputProps} props
 */
export function inputView(kind, props) {
  return kind === "chat" ? nothing : KIND_VIEWS[kind](props);
}

/** @param {InputProps} props */
function textView({ draft, change, rows = 6 }) {
  return html`<label class="field">
    <span class="sr-only">Text</span>
    <textarea id="input-text" rows=${rows} dir="auto" spellcheck="false" placeholder="Write or paste a text…"
      .value=${draft.text} @input=${onText((text) => change({ text }))}></textarea>
  </label>`;
}

/** @param {InputProps} props */
function chunksView({ draft, change }) {
  return html`${textView({ draft, change, ...NO_UPLOAD })}
    <div class="fields">
      ${numberField("Characters a piece", draft.size, 1, 10_000, (size) => change({ size }))}
      ${numberField("Milliseconds between", draft.delay, 0, 10_000, (delay) => change({ delay }))}
    </div>`;
}

const NO_UPLOAD = { uploading: null, upload: () => {}, cancelUpload: () => {} };

/** @param {InputProps} props */
function valueView({ draft, change }) {
  return html`<label class="field"><span>Tool</span>
      <input type="text" .value=${draft.toolName} @input=${onText((toolName) => change({ toolName }))}></label>
    <label class="field"><span>Value, as JSON</span>
      <textarea class="code" rows="6" spellcheck="false" .value=${draft.value} @input=${onText((value) => change({ value }))}></textarea></label>`;
}

/** @param {InputProps} props */
function errorView({ draft, change }) {
  return html`<label class="field"><span>Message of the error</span>
      <input type="text" .value=${draft.message} @input=${onText((message) => change({ message }))}></label>
    ${numberField("Status", draft.status, 100, 599, (status) => change({ status }))}`;
}

/** @param {InputProps} props */
function conversationView({ draft, change }) {
  if (draft.json !== null) {
    return html`<label class="field"><span>Messages, as JSON of any format that Penstock reads</span>
        <textarea class="code" rows="10" spellcheck="false" .value=${draft.json} @input=${onText((json) => change({ json }))}></textarea></label>
      <button type="button" class="quiet" @click=${() => change({ json: null })}>Write messages instead</button>`;
  }
  const { messages } = draft;
  /** @param {number} at @param {Partial<ChatMessage>} patch */
  const edit = (at, patch) =>
    change({ messages: messages.map((one, index) => (index === at ? { ...one, ...patch } : one)) });
  return html`<ol class="messages">
      ${messages.map((message, at) => messageRow(message, at, messages.length, edit, () => remove(at)))}
    </ol>
    <div class="buttons">
      <button type="button" class="quiet" id="add-message" @click=${add}>Add a message</button>
      <button type="button" class="quiet" @click=${() => change({ json: JSON.stringify(messages, null, 2) })}>Edit as JSON</button>
    </div>`;

  function add() {
    const role = messages.at(-1)?.role === "user" ? "assistant" : "user";
    change({ messages: [...messages, { role, content: "" }] });
    requestAnimationFrame(() =>
      requestAnimationFrame(() => document.getElementById(`message-${messages.length}`)?.focus()),
    );
  }
  /** @param {number} at */
  function remove(at) {
    change({ messages: messages.filter((_, index) => index !== at) });
    document.getElementById("add-message")?.focus();
  }
}

/**
 * @param {ChatMessage} message
 * @param {number} at
 * @param {number} total
 * @param {(at: number, patch: Partial<ChatMessage>) => void} edit
 * @param {() => void} remove
 */
function messageRow(message, at, total, edit, remove) {
  return html`<li>
    <div class="head">
      <select aria-label="Role of message ${at + 1}" @change=${onText((role) => edit(at, { role }))}>
        ${ROLES.map((role) => html`<option value=${role} .selected=${role === message.role}>${role}</option>`)}
      </select>
      <button type="button" class="icon" aria-label="Remove message ${at + 1}" ?disabled=${total === 1} @click=${remove}>✕</button>
    </div>
    <textarea id="message-${at}" rows="2" dir="auto" spellcheck="false" aria-label="Text of message ${at + 1}"
      .value=${message.content} @input=${onText((content) => edit(at, { content }))}></textarea>
  </li>`;
}

/** @param {InputProps} props */
function fileView({ draft, uploading, upload, cancelUpload }) {
  if (uploading) {
    return html`<div class="drop">
      <p>Uploading <strong>${visible(uploading.name)}</strong>…</p>
      <progress max="1" .value=${uploading.share} aria-label="Upload"></progress>
      <button type="button" class="quiet" @click=${cancelUpload}>Cancel the upload</button>
    </div>`;
  }
  return html`<div class="drop" @dragover=${over} @dragleave=${leave} @drop=${drop}>
      ${draft.file ? fileFacts(draft.file) : html`<p>Drop a file of rows here: JSON Lines, one object a line.</p>`}
      <label class="button quiet">${draft.file ? "Choose another file" : "Choose a file"}
        <input type="file" class="sr-only" accept=".jsonl,.ndjson,.json,.txt,.md,.log,.csv,.tsv,.parquet,.gz,.zst,application/x-ndjson" @change=${chosen}></label>
    </div>
    ${draft.file ? preview(draft.file) : nothing}`;

  /** @param {DragEvent & {currentTarget: HTMLElement}} event */
  function over(event) {
    event.preventDefault();
    event.currentTarget.classList.add("over");
  }
  /** @param {DragEvent & {currentTarget: HTMLElement}} event */
  function leave(event) {
    event.currentTarget.classList.remove("over");
  }
  /** @param {DragEvent & {currentTarget: HTMLElement}} event */
  function drop(event) {
    event.preventDefault();
    leave(event);
    const file = event.dataTransfer?.files[0];
    if (file) upload(file);
  }
  /** @param {Event & {currentTarget: HTMLInputElement}} event */
  function chosen(event) {
    const file = event.currentTarget.files?.[0];
    event.currentTarget.value = ""; // so that the same file can be chosen again
    if (file) upload(file);
  }
}

/** @param {import("./types.js").FileInfo} file */
function fileFacts(file) {
  return html`<p><strong>${visible(file.name)}</strong><br>${count(file.rows, "row")} · ${bytes(file.bytes)}</p>
    ${
      file.problem_count
        ? html`<p class="warning">${count(file.problem_count, "line")} cannot be read. The first one is line
          ${file.problems[0]?.line}: ${visible(file.problems[0]?.problem ?? "")}</p>`
        : nothing
    }`;
}

/** @param {import("./types.js").FileInfo} file */
function preview(file) {
  if (!file.preview?.length) return nothing;
  return html`<details class="preview"><summary>The first rows</summary>
    <ol>${file.preview.map(({ line, text }) => html`<li value=${line}><code>${visible(text)}</code></li>`)}</ol>
  </details>`;
}

/**
 * @param {string} label
 * @param {number} value
 * @param {number} min
 * @param {number} max
 * @param {(value: number) => void} change
 */
function numberField(label, value, min, max, change) {
  return html`<label class="field"><span>${label}</span>
    <input type="number" min=${min} max=${max} .value=${String(value)} @change=${onText((text) => change(clamped(Number(text), min, max)))}></label>`;
}

/**
 * @param {number} value
 * @param {number} min
 * @param {number} max
 */
function clamped(value, min, max) {
  return Math.min(Math.max(Number.isFinite(value) ? value : min, min), max);
}

/**
 * @param {(text: string) => void} change
 * @returns {(event: Event) => void}
 */
function onText(change) {
  return (event) => change(/** @type {HTMLInputElement} */ (event.currentTarget).value);
}
