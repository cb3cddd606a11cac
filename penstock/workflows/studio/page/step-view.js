/** All about the step that is chosen: what a run did in it, its docs, and forms for its options and its policy. */

import { html, nothing } from "lit-html";
import { spanDetails, table } from "penstock/details.js";
import { stageWord, visible } from "penstock/format.js";
import { agentView } from "./agent-view.js";
import { coverageView } from "./coverage-view.js";
import { optionsForm } from "./options-form.js";
import { prose } from "./prose.js";
import { fileName, lastName } from "./words.js";

/** @typedef {import("./types.js").Step} Step */
/** @typedef {import("./types.js").Detail} Detail */
/** @typedef {import("./types.js").Changes} Changes */
/** @typedef {import("./types.js").Span} Span */

/** More spans of one step than this are too many to read. */
const MOST_SPANS = 50;

/**
 * @typedef {object} StepProps
 * @property {Detail} detail
 * @property {string | null} path
 * @property {Span[]} spans of a run, those of this step
 * @property {Changes} changes
 * @property {Map<string, string>} errors by `path`, group and name, parted by line feeds
 * @property {(path: string, group: "options" | "policy", name: string, value: unknown) => void} change
 * @property {(path: string, group: "options" | "policy", name: string) => void} reset
 * @property {(path: string, group: "options" | "policy", name: string, message: string) => void} refuse
 * @property {() => void} resetAll
 * @property {() => void} tryChanges
 * @property {boolean} editable
 */

/** @param {StepProps} props */
export function stepView(props) {
  const { detail, path, spans } = props;
  if (path === null) return overview(props);
  const step = detail.steps.find((one) => one.path === path);
  const node = detail.graph.nodes.find((one) => one.path === path);
  if (!step && !node) return html`<p class="none">This step is not in the version that is shown.</p>`;
  return html`<article class="step" aria-label="Step ${visible(step?.id ?? node?.title ?? path)}">
    ${step ? heading(step) : html`<h2>${visible(node?.title ?? path)}</h2><p class="path"><code>${visible(path)}</code> · ${node?.kind}</p>`}
    ${changedBar(props)}
    ${spans.slice(0, MOST_SPANS).map(spanDetails)}
    ${spans.length > MOST_SPANS ? html`<p class="none">${spans.length - MOST_SPANS} more are in the timeline.</p>` : nothing}
    ${step ? stepForms(step, props) : nothing}
  </article>`;
}

/** @param {Step} step */
function heading(step) {
  return html`<h2>${visible(step.id)}</h2>
    <p class="path"><span class="role" data-role=${step.role ?? "undeclared"}>${step.role ?? "undeclared"}</span>
      <code title=${step.processor}>${visible(lastName(step.processor))}</code>
      ${step.file ? html`<span title=${step.file}>${visible(fileName(step.file))}${step.line ? `:${step.line}` : nothing}</span>` : nothing}</p>
    ${step.doc ? html`<p class="lead">${prose(step.doc)}</p>` : nothing}`;
}

/**
 * @param {Step} step
 * @param {StepProps} props
 */
function stepForms(step, props) {
  return html`${section("Options", step.why_not ? html`<p class="none">${visible(step.why_not)}</p>` : form(step, "options", step.options, props))}
    ${section("Policy", form(step, "policy", policyFields(step, props.detail), props))}
    ${section(
      "About",
      html`
      ${step.about && step.about !== step.doc ? html`<details><summary>The whole docstring</summary><pre class="doc">${visible(step.about)}</pre></details>` : nothing}
      ${table("", [
        ["path", step.path],
        ["class", step.processor],
        ["stages", step.stages.map(stageWord).join(", ")],
      ])}`,
    )}`;
}

/**
 * @param {Step} step
 * @param {Detail} detail
 * @returns {import("./types.js").Field[]}
 */
function policyFields(step, detail) {
  const fields = step.policy_form ?? detail.policy_form ?? [];
  return fields.map((field) => ({ ...field, value: step.policy?.[field.name] ?? field.value ?? null, set: false }));
}

/**
 * @param {string} title
 * @param {unknown} content
 */
function section(title, content) {
  return html`<section><h3>${title}</h3>${content}</section>`;
}

/**
 * @param {Step} step
 * @param {"options" | "policy"} group
 * @param {import("./types.js").Field[]} fields
 * @param {StepProps} props
 */
function form(step, group, fields, { changes, errors, change, reset, refuse, editable }) {
  if (fields.length === 0) return html`<p class="none">It has none.</p>`;
  if (!editable)
    return html`<p class="none">This is the picture of an earlier run. Its options are those of that run.</p>`;
  const own = [...errors].filter(([key]) => key.startsWith(`${step.path}\n${group}\n`));
  return optionsForm({
    path: step.path,
    group,
    fields,
    changes: changes[step.path]?.[group] ?? {},
    errors: new Map(own.map(([key, message]) => [key.split("\n").at(-1) ?? "", message])),
    change: (name, value) => change(step.path, group, name, value),
    reset: (name) => reset(step.path, group, name),
    refuse: (name, message) => refuse(step.path, group, name, message),
  });
}

/**
 * Says that options are changed, and offers what to do about it.
 *
 * @param {Pick<StepProps, "changes" | "errors" | "tryChanges" | "resetAll">} props
 */
export function changedBar({ changes, tryChanges, resetAll, errors }) {
  const total = countChanges(changes);
  if (total === 0) return nothing;
  const general = [...errors].filter(([key]) => key.endsWith("\n"));
  return html`<div class="changed-bar" role="group" aria-label="Changed options">
    <p><strong>${total === 1 ? "1 option is changed" : `${total} options are changed`}</strong> for your runs. The file stays as it is.</p>
    ${general.map(([, message]) => html`<p class="error" role="alert">${visible(message)}</p>`)}
    <div class="buttons">
      <button type="button" class="primary" @click=${tryChanges}>See what changes</button>
      <button type="button" class="quiet" @click=${resetAll}>Reset all</button>
    </div>
  </div>`;
}

/** @param {Changes} changes */
export function countChanges(changes) {
  return Object.values(changes).reduce(
    (sum, { options = {}, policy = {} }) => sum + Object.keys(options).length + Object.keys(policy).length,
    0,
  );
}

/**
 * Changes in words, such as `strategy="warn"`.
 *
 * @param {Changes} changes
 */
export function changesInWords(changes) {
  return Object.entries(changes)
    .flatMap(([path, { options = {}, policy = {} }]) =>
      Object.entries({ ...options, ...policy }).map(([name, value]) => `${path}: ${name} = ${JSON.stringify(value)}`),
    )
    .join(", ");
}

/** @param {StepProps} props */
function overview(props) {
  const { detail } = props;
  return html`<article class="step">
    <h2>${visible(detail.name)}</h2>
    <p class="path"><code>${visible(detail.reference)}</code></p>
    ${detail.doc ? html`<p class="lead">${visible(detail.doc)}</p>` : nothing}
    ${changedBar(props)}
    <p class="none">Choose a step in the picture to see its docs, options and policy, and what a run did in it.</p>
    ${detail.agent ? agentView(detail.agent) : nothing}
    ${table("", [
      ["steps", String(detail.steps.length)],
      ["stages", detail.stages.map(stageWord).join(", ")],
      ["file", detail.file ?? "built in"],
    ])}
    ${detail.coverage ? coverageView(detail.coverage) : nothing}
    ${detail.diff ? section("What the changes do", html`<pre class="doc">${visible(detail.diff)}</pre>`) : nothing}
  </article>`;
}
