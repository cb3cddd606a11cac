/** What a reader gives a workflow, as it is being written: which kinds there are, and what is sent. No page is needed. */

/** @typedef {import("./types.js").Stage} Stage */
/** @typedef {import("./types.js").RunInput} RunInput */
/** @typedef {import("./types.js").ChatMessage} ChatMessage */
/** @typedef {import("./types.js").FileInfo} FileInfo */
/** @typedef {"text" | "conversation" | "file" | "chunks" | "value" | "error" | "chat"} InputKind */

/**
 * @typedef {object} Draft
 * @property {InputKind} kind
 * @property {string} text
 * @property {ChatMessage[]} messages
 * @property {string | null} json the conversation as JSON, while it is written so
 * @property {FileInfo | null} file
 * @property {number} size of a piece of a stream, in characters
 * @property {number} delay between two pieces, in milliseconds
 * @property {string} value as JSON
 * @property {string} toolName
 * @property {string} message of an error
 * @property {number} status of an error
 * @property {string} question that is written to an agent
 */

/** Something wrong with what was written; the message says what. */
export class DraftError extends Error {}

/** @returns {Draft} */
export function newDraft() {
  return {
    kind: "text",
    text: "",
    messages: [{ role: "user", content: "" }],
    json: null,
    file: null,
    size: 12,
    delay: 60,
    value: "{}",
    toolName: "tool",
    message: "The model does not answer.",
    status: 503,
    question: "",
  };
}

/**
 * Which kinds of input fit.
 *
 * @param {string} kind of the workflow
 * @param {Stage | undefined} stage
 * @returns {{id: InputKind, label: string}[]} at least one
 */
export function kindsFor(kind, stage) {
  const file = { id: /** @type {const} */ ("file"), label: "File" };
  if (kind === "agent") return [{ id: "chat", label: "Chat" }];
  if (stage?.streams) return [{ id: "chunks", label: "Stream" }];
  if (stage?.value) return [{ id: "value", label: stage.value === "arguments" ? "Tool call" : "Tool result" }];
  if (stage?.name === "process_api_error") return [{ id: "error", label: "Error" }];
  return [{ id: "text", label: "Text" }, { id: "conversation", label: "Conversation" }, file];
}

/**
 * The kind that is used: the chosen one if it fits.
 *
 * @param {Draft} draft
 * @param {{id: InputKind}[]} kinds
 * @returns {InputKind}
 */
export function kindOf(draft, kinds) {
  return kinds.some((kind) => kind.id === draft.kind) ? draft.kind : (kinds[0]?.id ?? "text");
}

/**
 * What is sent to the server.
 *
 * @param {Draft} draft
 * @param {InputKind} kind
 * @returns {RunInput}
 * @throws {DraftError} if something is missing, or is no JSON
 */
export function inputOf(draft, kind) {
  switch (kind) {
    case "text":
      return { kind, text: draft.text };
    case "conversation":
      return { kind, messages: draft.json === null ? draft.messages : conversationOf(draft.json) };
    case "file":
      if (!draft.file) throw new DraftError("Choose a file first.");
      return { kind, file: draft.file.id };
    case "chunks":
      return { kind, chunks: pieces(draft.text, draft.size), delay: draft.delay / 1000 };
    case "value":
      return { kind, value: parsed(draft.value), tool_name: draft.toolName };
    case "error":
      return { kind, message: draft.message, status: draft.status };
    case "chat":
      return { kind: "conversation", messages: draft.messages };
  }
}

/**
 * Cut a text as a model would stream it.
 *
 * @param {string} text
 * @param {number} size in code points, so that no character is cut
 * @returns {string[]}
 */
export function pieces(text, size) {
  const points = Array.from(text);
  const step = Math.max(1, Math.floor(size) || 1);
  const result = [];
  for (let at = 0; at < points.length; at += step) result.push(points.slice(at, at + step).join(""));
  return result;
}

/**
 * @param {string} text
 * @returns {ChatMessage[]}
 */
function conversationOf(text) {
  const messages = parsed(text);
  if (!Array.isArray(messages)) throw new DraftError("A conversation is a JSON array of messages.");
  return messages;
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new DraftError(`This is not JSON: ${error instanceof Error ? error.message : error}`);
  }
}

/**
 * A draft for an input that was sent before.
 *
 * @param {RunInput} input
 * @param {boolean} agent
 * @returns {Partial<Draft>}
 */
export function draftOf(input, agent) {
  if (agent) return { kind: "chat", messages: chatOf(input) };
  switch (input.kind) {
    case "text":
      return { kind: "text", text: input.text ?? "" };
    case "conversation":
      return conversationDraft(input.messages ?? []);
    case "chunks":
      return { kind: "chunks", text: (input.chunks ?? []).join("") };
    case "value":
      return {
        kind: "value",
        value: JSON.stringify(input.value, null, 2),
        toolName: String(input.tool_name ?? "tool"),
      };
    case "error":
      return { kind: "error", message: String(input.message ?? ""), status: Number(input.status ?? 503) };
    default:
      return { kind: "file" };
  }
}

/** @param {ChatMessage[]} messages */
function conversationDraft(messages) {
  const plain = messages.every((one) => typeof one.content === "string" && Object.keys(one).length === 2);
  const kind = /** @type {const} */ ("conversation");
  return plain ? { kind, messages, json: null } : { kind, json: JSON.stringify(messages, null, 2) };
}

/** @param {RunInput} input */
function chatOf(input) {
  return input.kind === "text" || input.kind === "suspended"
    ? [{ role: "user", content: input.text ?? "" }]
    : (input.messages ?? []);
}
