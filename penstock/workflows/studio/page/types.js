/**
 * The shapes of the studio's data, as types for the checker; nothing runs here. API.md describes what the server sends.
 *
 * @typedef {import("penstock/types.js").Span} Span
 * @typedef {import("penstock/types.js").Trace} Trace
 * @typedef {import("penstock/types.js").Tripwire} Tripwire
 * @typedef {import("penstock/types.js").Mark} Mark
 * @typedef {import("penstock/types.js").RunMarks} RunMarks
 * @typedef {import("penstock/types.js").Shown} Shown
 *
 * @typedef {object} Problem Why a file does not load, or why a run failed.
 * @property {string} kind
 * @property {string} message
 * @property {string | null} [file]
 * @property {number | null} [line]
 * @property {string | null} [source]
 * @property {{file: string, line: number, name: string, source: string}[]} [frames]
 * @property {string} [traceback]
 *
 * @typedef {object} Summary
 * @property {string} id
 * @property {string} reference
 * @property {string} name
 * @property {"workflow" | "agent" | "preset"} kind
 * @property {string} doc
 * @property {string | null} file
 * @property {"unloaded" | "loading" | "ready" | "failed"} state
 * @property {number | null} version
 * @property {{version: number, loaded: number}[]} versions
 * @property {Problem | null} problem
 *
 * @typedef {object} Stage
 * @property {string} name
 * @property {string} doc
 * @property {"arguments" | "output" | null} value
 * @property {boolean} streams
 *
 * @typedef {object} Catalog
 * @property {string} version
 * @property {Stage[]} stages
 * @property {Summary[]} workflows
 * @property {{upload: number, text: number, seconds: number}} limits
 * @property {{store: string, by: string, fixed: boolean} | null} reviews
 *
 * @typedef {object} Field An option of a step, or a part of its policy, as a form shows it.
 * @property {string} name
 * @property {"bool" | "int" | "float" | "text" | "choice" | "choices" | "list" | "json" | "fixed"} kind
 * @property {string} doc
 * @property {string} type
 * @property {boolean} nullable
 * @property {boolean} required
 * @property {unknown[]} [choices]
 * @property {"text" | "int" | "float"} [items]
 * @property {unknown} default
 * @property {unknown} value
 * @property {boolean} set
 * @property {boolean} [secret]
 * @property {string} [why_not]
 *
 * @typedef {object} Step
 * @property {string} path
 * @property {string} id
 * @property {string} processor
 * @property {string | null} role
 * @property {string} doc
 * @property {string} about
 * @property {string[]} stages
 * @property {string | null} file
 * @property {number | null} line
 * @property {Record<string, unknown>} policy
 * @property {Field[]} options
 * @property {Field[]} [policy_form]
 * @property {string | null} why_not
 *
 * @typedef {Record<string, {options?: Record<string, unknown>, policy?: Record<string, unknown>}>} Changes by a step's path
 *
 * @typedef {object} DetailFields
 * @property {number} shown the version
 * @property {string} svg
 * @property {{nodes: GraphNode[]}} graph
 * @property {Step[]} steps
 * @property {Field[]} [policy_form]
 * @property {string[]} stages
 * @property {string} [diff]
 * @property {string} [diff_svg]
 * @property {AgentAbout | null} [agent]
 * @property {CoverageTable | null} [coverage]
 * @typedef {Omit<Summary, "stages"> & DetailFields} Detail
 *
 * @typedef {{kind: string, title: string, path?: string} & Record<string, unknown>} GraphNode
 *
 * @typedef {object} CoverageTable Which channel is read by which step; see docs/coverage.md.
 * @property {{name: string, title: string}[]} channels
 * @property {{path: string, cells: Record<string, {reads: string, conditions: string[]}>}[]} steps
 * @property {{kind: string, channel: string, why: string}[]} gaps
 *
 * @typedef {object} AgentAbout What an agent has beside its processors.
 * @property {string} model
 * @property {{role: string, content: unknown}[] | string | null} instructions
 * @property {{name: string, description: string, parameters: {properties?: Record<string, unknown>}, approval: boolean | string, external: boolean}[]} tools
 * @property {{kind: string, storage: string | null, before: string[], after: string[]} | null} memory
 *
 * @typedef {object} Row A row of a file, and what became of it.
 * @property {number} line
 * @property {string | number | null} id
 * @property {string} [text] the beginning of its text, as it came in; runs of older versions have none
 * @property {"passed" | "edited" | "blocked" | "failed" | "invalid"} status
 * @property {number} seconds
 * @property {string | null} reason
 * @property {string | null} step
 * @property {string[]} flagged
 * @property {string | null} error
 * @property {Record<string, number>} edits
 *
 * @typedef {object} StepSums
 * @property {number} seconds
 * @property {number} edits
 * @property {number} tripped
 * @property {number} failed
 * @property {number} runs
 *
 * @typedef {object} Output
 * @property {string | null} text
 * @property {{role: string, content: unknown}[] | null} messages
 * @property {unknown} value
 * @property {Tripwire | null} tripwire
 * @property {string[] | null} chunks
 *
 * @typedef {{kind: string, text?: string, messages?: ChatMessage[], file?: string, line?: number, chunks?: string[]} & Record<string, unknown>} RunInput
 * @typedef {{role: string, content: string}} ChatMessage
 *
 * @typedef {object} ShortRun
 * @property {string} id
 * @property {number} created
 * @property {{id: string, name: string, reference: string, version: number, kind: string}} workflow
 * @property {string | null} stage
 * @property {Changes} changes
 * @property {RunInput} input
 * @property {string} title
 * @property {"waiting" | "loading" | "running" | "done"} state
 * @property {string | null} status
 * @property {number | null} seconds
 *
 * @typedef {object} StoredFields
 * @property {string} svg
 * @property {unknown} [row] the row of a file on which it ran
 * @property {Trace | null} trace
 * @property {Record<string, RunMarks> | null} [marks] by the stage that a picture shows; empty for all stages
 * @property {Output | null} output
 * @property {Problem | null} error
 * @property {string} logs
 * @property {{counts: Record<string, number>, total: number, rows: Row[], steps: Record<string, StepSums>, slowest: Row[], left_out: number} | null} file
 * @property {{text: string, steps: number, finish_reason: string, usage: Record<string, number>, run_id?: string, tool_calls: ToolCall[]} | null} agent
 * @typedef {ShortRun & StoredFields} StoredRun
 *
 * @typedef {object} ToolCall A call of a tool, with what guards hid of it.
 * @property {string} id
 * @property {string} name
 * @property {string} state
 * @property {unknown} [arguments_before] as the model wrote them
 * @property {unknown} arguments as the tool got them
 * @property {unknown} [result_before] as the tool returned it
 * @property {unknown} result as the model got it
 * @property {string | null} [error]
 * @property {string | null} [stopped] why a guard stopped the run here
 *
 * @typedef {object} FileInfo
 * @property {string} id
 * @property {string} name
 * @property {number} bytes
 * @property {number} rows
 * @property {{line: number, problem: string}[]} problems
 * @property {number} problem_count
 * @property {{line: number, text: string}[]} preview
 */

export {};
