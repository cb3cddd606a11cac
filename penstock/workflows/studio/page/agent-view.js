/** All about an agent beside its processors: its instructions, tools and memory, and what became of its tool calls. */

import { html, nothing } from "lit-html";
import { table } from "penstock/details.js";
import { duration, visible } from "penstock/format.js";
import { marked } from "./result.js";
import { asText, transcript } from "./run-texts.js";
import { textDiff } from "./text-diff.js";

/** @typedef {import("./types.js").AgentAbout} AgentAbout */
/** @typedef {import("./types.js").ToolCall} ToolCall */
/** @typedef {import("./types.js").Span} Span */

/** Longer values are shown without marks of what changed. */
const MOST = 20_000;

/** @param {AgentAbout} agent */
export function agentView({ model, instructions, tools, memory }) {
  return html`${table("", [["model", model]])}
    <section><h3>Instructions</h3>${instructions?.length ? html`<pre class="doc" dir="auto">${visible(instructionsText(instructions))}</pre>` : html`<p class="none">It has none.</p>`}</section>
    <section><h3>Tools</h3>${tools.length ? tools.map(toolView) : html`<p class="none">It has none.</p>`}</section>
    <section><h3>Memory</h3>${memory ? memoryView(memory) : html`<p class="none">It has none.</p>`}</section>`;
}

/** @param {NonNullable<AgentAbout["instructions"]>} instructions */
function instructionsText(instructions) {
  if (typeof instructions === "string") return `(${instructions})`;
  return instructions.map((one) => (typeof one.content === "string" ? one.content : transcript([one]))).join("\n\n");
}

/** @param {AgentAbout["tools"][number]} tool */
function toolView({ name, description, parameters, approval, external }) {
  const notes = [
    approval ? `asks for approval${approval === true ? "" : ` ${approval}`}` : "",
    external ? "run by the caller" : "",
  ];
  return html`<details class="tool"><summary><code>${visible(`${name}(${Object.keys(parameters.properties ?? {}).join(", ")})`)}</code>
      ${notes.filter(Boolean).map((note) => html`<span class="note">${note}</span>`)}</summary>
    ${description ? html`<p dir="auto">${visible(description)}</p>` : nothing}
    <pre class="doc">${visible(asText(parameters))}</pre></details>`;
}

/** @param {NonNullable<AgentAbout["memory"]>} memory */
function memoryView({ kind, storage, before, after }) {
  return table("", [
    ["kind", kind],
    ["storage", storage ?? "its own"],
    ["before the model", before],
    ["after the model", after],
  ]);
}

/**
 * What became of a tool call: its arguments and its result, before and after the guards.
 *
 * @param {ToolCall} made
 * @param {Span | undefined} span when the tool ran
 * @param {(span: Span) => void} select
 */
export function callView(made, span, select) {
  const tone = made.stopped ? "tripped" : made.error ? "failed" : "passed";
  return html`<section class="call-details" data-tone=${tone} aria-label="Call of ${visible(made.name)}">
    <h3>Tool <code>${visible(made.name)}</code>
      ${span ? html`<button type="button" class="quiet small" title="Show it in the timeline" @click=${() => select(span)}>${duration(span.seconds)}</button>` : html`<span class="note">did not run</span>`}</h3>
    ${values("Arguments", "the model wrote", "the tool got", made.arguments_before ?? made.arguments, made.arguments)}
    ${made.error ? html`<p class="error">${visible(made.error)}</p>` : values("Result", "the tool returned", "the model got", made.result_before ?? made.result, made.result)}
    ${made.stopped ? html`<p class="error">${visible(made.stopped)}</p>` : nothing}
  </section>`;
}

/**
 * @param {string} title
 * @param {string} first what the value was before the guards
 * @param {string} second what it was after them
 * @param {unknown} before
 * @param {unknown} after
 */
function values(title, first, second, before, after) {
  if (before === null && after === null) return nothing;
  const [was, is] = [asText(before), asText(after)];
  if (was === is) return value(title, "no guard changed it", visible(was));
  if (after === null) return value(title, `as ${first}; nothing was let through`, visible(was));
  const pieces = was.length + is.length > MOST ? [] : textDiff(was, is);
  return html`${value(title, `as ${first}`, pieces.length ? marked(pieces, "added") : visible(was))}
    ${value(title, `as ${second}`, pieces.length ? marked(pieces, "removed") : visible(is))}`;
}

/**
 * @param {string} title
 * @param {string} note
 * @param {unknown} content
 */
function value(title, note, content) {
  return html`<figure class="io"><figcaption>${title} <span class="note">${note}</span></figcaption>
    <div class="text code" dir="auto" tabindex="0" role="group" aria-label="${title}, ${note}">${content}</div></figure>`;
}
