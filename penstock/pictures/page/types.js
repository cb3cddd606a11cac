/**
 * The shapes of the data that the page is given, as types for the checker; nothing runs here.
 *
 * @typedef {"run" | "model_step" | "stage" | "step" | "branch" | "attempt" | "model" | "tool"} SpanKind
 * @typedef {"passed" | "edited" | "tripped" | "failed" | "skipped"} SpanStatus
 *
 * @typedef {object} Edit A change of a text; positions in the text before, in code points.
 * @property {string} message
 * @property {number} part
 * @property {string} field
 * @property {number} start
 * @property {number} end
 * @property {string} kind
 * @property {string} replacement
 *
 * @typedef {object} Tripwire
 * @property {string} reason
 * @property {string} processor_id
 * @property {string} stage
 * @property {boolean} [retry]
 * @property {Record<string, unknown>} [metadata]
 *
 * @typedef {object} SpanText
 * @property {string} message
 * @property {number} part
 * @property {string} role
 * @property {string} before
 * @property {string} after
 *
 * @typedef {object} StreamChunk
 * @property {number} at
 * @property {string} in
 * @property {number} held
 * @property {string} out
 *
 * @typedef {object} Span
 * @property {number} id
 * @property {number | null} parent
 * @property {SpanKind} kind
 * @property {string} name
 * @property {string} path
 * @property {string} stage
 * @property {number} at
 * @property {number} seconds
 * @property {SpanStatus} status
 * @property {string} [processor]
 * @property {boolean} [shadow]
 * @property {Edit[]} [edits]
 * @property {Tripwire} [tripwire]
 * @property {string} [error]
 * @property {Record<string, unknown>} [details]
 * @property {string[]} [flagged]
 * @property {{label: string, taken: boolean}[]} [arms]
 * @property {number} [number]
 * @property {string} [finish_reason]
 * @property {Record<string, number>} [usage]
 * @property {SpanText[]} [texts]
 * @property {StreamChunk[]} [chunks]
 *
 * @typedef {object} Trace
 * @property {number} version
 * @property {string} run_id
 * @property {string | null} thread_id
 * @property {string} workflow
 * @property {number} started
 * @property {number} seconds
 * @property {"passed" | "edited" | "blocked" | "failed"} status
 * @property {boolean} texts
 * @property {Tripwire | null} tripwire
 * @property {Record<string, number> | null} usage
 * @property {Span[]} spans
 *
 * @typedef {object} StepInfo What the page says of a step that is clicked. `workflow.draw("json")` has these fields,
 *   but for `doc`: the docstring of the processor's class.
 * @property {string} path
 * @property {string} title
 * @property {string} kind
 * @property {string} [doc]
 * @property {string} [processor]
 * @property {string | null} [role]
 * @property {string} [edits]
 * @property {string | null} [on_error]
 * @property {string[]} [stages]
 * @property {string[]} [provides]
 * @property {string[]} [requires]
 * @property {boolean} [stores]
 * @property {Record<string, unknown>} [policy]
 * @property {Record<string, unknown>} [options]
 * @property {string} [match] of a branch: `first` or `all`
 * @property {string | null} [merge] of a parallel, a branch or a dag
 *
 * @typedef {object} WorkflowInfo
 * @property {string} name
 * @property {string | null} stage the stage that is shown; null for all
 * @property {StepInfo[]} steps steps, and all else that has a path: branches, parallels, nested workflows
 *
 * @typedef {object} Mark What a box of the picture shows of a run. `pictures/page_marks.py` makes those of traces.
 * @property {SpanStatus | "running"} [kind]
 * @property {string} [look] its classes
 * @property {string[]} [words] the lines of its badge
 * @property {string} [tip] what is shown under the pointer
 *
 * @typedef {Mark & {when?: string}} MarkState A mark from a moment on, `start ID` or `end ID` of a span; without one,
 *   from the start of the run.
 *
 * @typedef {object} RunMarks What a run did to a picture. What is not in it was not reached.
 * @property {Record<string, MarkState[]>} shapes the states of each box, by its id, in the order of time
 * @property {[source: string, target: string, when: string][]} wires the arrows that were taken, and from when on
 *
 * @typedef {object} Shown What a picture shows of a run.
 * @property {Map<string, Mark>} [shapes] by the id of a box
 * @property {Map<string, Mark>} [paths] by a path, for boxes that `shapes` does not have
 * @property {Set<string> | null} [wires] the arrows that were taken, each as `wireKey`; null: that is not known
 */

export {};
