/** Why a file does not load, or why a run failed: the message, the place in the file, and the traceback. */

import { html, nothing } from "lit-html";
import { visible } from "penstock/format.js";
import { fileName } from "./words.js";

/** @typedef {import("./types.js").Problem} Problem */

const TITLES = {
  load: "This file does not load",
  hang: "This file takes too long to load",
  crash: "Python crashed",
  timeout: "The time limit is over",
  cancelled: "The run was cancelled",
  step: "A step failed",
  input: "The input cannot be read",
  options: "An option was refused",
  stage: "This stage cannot run",
  offline: "The studio does not answer",
};

/**
 * @param {Problem} problem
 * @param {string} [more] what still works, for example
 */
export function problemView(problem, more = "") {
  const title = TITLES[/** @type {"load"} */ (problem.kind)] ?? "Something went wrong";
  const frame = problem.frames?.at(-1);
  const file = problem.file ?? frame?.file;
  const line = problem.line ?? frame?.line;
  const source = problem.source ?? frame?.source;
  return html`<section class="problem" role="alert">
    <h2>${title}</h2>
    <p class="message">${visible(problem.message)}</p>
    ${more ? html`<p>${more}</p>` : nothing}
    ${
      file
        ? html`<figure class="source"><figcaption title=${file}>${visible(fileName(file))}${line ? `, line ${line}` : nothing}</figcaption>
          ${source ? html`<pre><code>${line ? html`<span class="line">${line}</span>` : nothing}${visible(source)}</code></pre>` : nothing}</figure>`
        : nothing
    }
    ${
      problem.traceback
        ? html`<details><summary>Traceback</summary><pre tabindex="0" aria-label="Traceback"><code>${visible(problem.traceback)}</code></pre></details>`
        : nothing
    }
  </section>`;
}

/**
 * An error of the API, in the same form.
 *
 * @param {unknown} error
 * @returns {Problem}
 */
export function problemOf(error) {
  const known = /** @type {{kind?: string, message?: string, problem?: Problem}} */ (error);
  return known.problem ?? { kind: known.kind ?? "error", message: known.message ?? String(error) };
}
