/** Requests that wait for people, as values: times and decisions in words, and answers by the schema of a question. */

/**
 * @typedef {object} Decision
 * @property {"approve" | "reject" | "answer"} verdict
 * @property {unknown} [value]
 * @property {unknown} [arguments]
 * @property {string} [reason]
 * @property {string} [by]
 * @property {string} [at]
 *
 * @typedef {object} WaitingCall
 * @property {string} call_id
 * @property {string} tool
 * @property {unknown} arguments of a question: what is shown
 * @property {"approval" | "result" | "question" | "run"} kind
 * @property {string} [inner] of the kind run: id of the request of the agent that is the tool
 * @property {string} [reason] why a step asks
 * @property {Schema | null} [schema] of the answer
 * @property {Decision | null} decision
 *
 * @typedef {object} WaitingRun
 * @property {string} run_id
 * @property {string} agent
 * @property {"waiting" | "running" | "ended"} status
 * @property {string | null} thread_id
 * @property {string | null} resource_id
 * @property {string} question
 * @property {string} text
 * @property {string | null} created_at
 * @property {string | null} due_at
 * @property {WaitingCall[]} calls
 * @property {string | null} here id of the agent of this studio that can go on with it
 * @property {boolean} can_go_on
 *
 * @typedef {{type?: string | string[], enum?: unknown[], title?: string, description?: string, properties?: Record<string, Schema>, required?: string[], default?: unknown}} Schema
 *
 * @typedef {object} AnswerField A part of an answer.
 * @property {string} name empty if the answer is one value
 * @property {"text" | "number" | "bool" | "choice" | "json"} kind
 * @property {unknown[]} choices
 * @property {boolean} required
 * @property {string} doc
 */

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;

/**
 * @param {number} seconds
 * @returns {string} such as `40 s`, `5 min`, `3 h`, `6 days`
 */
export function span(seconds) {
  if (seconds < MINUTE) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < HOUR) return `${Math.round(seconds / MINUTE)} min`;
  if (seconds < 2 * DAY) return `${Math.round(seconds / HOUR)} h`;
  return `${Math.round(seconds / DAY)} days`;
}

/**
 * How a request stands in time.
 *
 * @param {WaitingRun} run
 * @param {number} now in milliseconds since 1970
 * @returns {string} such as `waits 5 min, expires in 6 days`
 */
export function timesOf({ status, created_at, due_at }, now) {
  const since = created_at === null ? "" : span((now - Date.parse(created_at)) / 1000);
  const left = due_at === null ? null : (Date.parse(due_at) - now) / 1000;
  if (status === "ended") return since ? `began ${since} ago` : "";
  const words = [status === "running" ? "goes on" : `waits ${since}`.trim()];
  if (left !== null && status === "waiting") words.push(left <= 0 ? "its time is over" : `expires in ${span(left)}`);
  if (left !== null && status === "running" && left <= 0) words.push("its process may have died");
  return words.join(", ");
}

/** @param {WaitingCall} call */
export function standOf({ kind, decision }) {
  if (decision) return { approve: "approved", reject: "rejected", answer: "answered" }[decision.verdict];
  const awaited = { approval: "approval", result: "its result", question: "an answer", run: "its own request" };
  return `waits for ${awaited[kind]}`;
}

/**
 * @param {Decision} decision
 * @param {number} now in milliseconds since 1970
 * @returns {string} such as `approved by eve, 5 min ago: fine`
 */
export function decisionWords({ verdict, by, at, reason }, now) {
  const word = { approve: "approved", reject: "rejected", answer: "answered" }[verdict];
  const when = at ? `, ${span((now - Date.parse(at)) / 1000)} ago` : "";
  return `${word}${by ? ` by ${by}` : ""}${when}${reason ? `: ${reason}` : ""}`;
}

/**
 * @param {WaitingRun} run
 * @returns {WaitingCall[]}
 */
export function undecided(run) {
  return run.calls.filter((call) => call.decision === null);
}

/**
 * The request beside one in the list, from the other end at an end.
 *
 * @param {WaitingRun[]} runs
 * @param {string | null} id
 * @param {number} step
 * @returns {string | null}
 */
export function beside(runs, id, step) {
  if (runs.length === 0) return null;
  const at = runs.findIndex((run) => run.run_id === id);
  const to = at < 0 ? (step > 0 ? 0 : runs.length - 1) : at + step;
  return runs[(to + runs.length) % runs.length]?.run_id ?? null;
}

/**
 * @param {unknown} value
 * @returns {string} as JSON on several lines; a text as it is
 */
export function pretty(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/**
 * The parts of an answer, by its schema.
 *
 * @param {Schema | null | undefined} schema
 * @returns {AnswerField[]} one with an empty name if the answer is one value
 */
export function fieldsOf(schema) {
  if (schema?.type !== "object" || !schema.properties) return [fieldOf("", schema ?? {}, true)];
  const needed = new Set(schema.required ?? []);
  return Object.entries(schema.properties).map(([name, inner]) => fieldOf(name, inner, needed.has(name)));
}

/**
 * @param {string} name
 * @param {Schema} schema
 * @param {boolean} required
 * @returns {AnswerField}
 */
function fieldOf(name, schema, required) {
  const doc = schema.description ?? schema.title ?? "";
  const kinds = { string: "text", number: "number", integer: "number", boolean: "bool" };
  const kind = schema.enum ? "choice" : (kinds[/** @type {"string"} */ (schema.type)] ?? "json");
  return { name, kind: /** @type {AnswerField["kind"]} */ (kind), choices: schema.enum ?? [], required, doc };
}

/**
 * The field that says yes or no, if the schema has one as `HumanReview` asks for; buttons stand for it.
 *
 * @param {AnswerField[]} fields
 */
export function verdictField(fields) {
  return fields.find(
    ({ name, choices }) => name === "decision" && choices.includes("approve") && choices.includes("reject"),
  );
}

/**
 * The answer that was written. Fields that are empty and need not be there are left out.
 *
 * @param {AnswerField[]} fields
 * @param {Record<string, unknown>} written by the name of the field
 * @returns {unknown}
 * @throws {Error} with what is missing, or cannot be read
 */
export function answerOf(fields, written) {
  /** @type {Record<string, unknown>} */
  const made = {};
  for (const field of fields) {
    const value = written[field.name];
    const empty = value === undefined || (value === "" && field.kind !== "text") || (value === "" && !field.required);
    if (empty && field.required) throw new Error(`${field.name || "The answer"} is missing.`);
    if (!empty) made[field.name] = readField(field, value);
  }
  return fields.length === 1 && fields[0]?.name === "" ? made[""] : made;
}

/**
 * @param {AnswerField} field
 * @param {unknown} value
 */
function readField({ name, kind }, value) {
  if (kind === "json") return parsed(String(value), name || "The answer");
  if (kind !== "number") return value;
  const number = Number(value);
  if (!Number.isFinite(number)) throw new Error(`${name || "The answer"} is a number.`);
  return number;
}

/**
 * @param {string} text
 * @param {string} what
 * @returns {unknown}
 * @throws {Error} if it is no JSON
 */
export function parsed(text, what) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${what} is not JSON: ${error instanceof Error ? error.message : error}`);
  }
}
