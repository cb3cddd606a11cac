/** What went into a run and what came out of it, as texts. */

/** @typedef {import("./types.js").Output} Output */

/**
 * What went in and what came out, as texts.
 *
 * @param {import("./types.js").RunInput} input
 * @param {Output | null} output
 * @param {string | null} stage
 * @param {unknown} [row] the row of a file that is the input
 * @returns {{before: string | null, after: string | null}}
 */
export function textsOf(input, output, stage, row = null) {
  const given = input.kind === "file" ? inputOfRow(row) : input;
  const before = inputText(given);
  if (!output) return { before, after: null };
  if (output.chunks) return { before, after: output.chunks.join("") };
  if (stage && output.value !== null && output.value !== undefined) return { before, after: asText(output.value) };
  if (given.kind === "conversation" && output.messages) return { before, after: transcript(output.messages) };
  return { before, after: output.text ?? (output.messages ? transcript(output.messages) : null) };
}

/**
 * The row of a file as the input that it stands for.
 *
 * @param {unknown} row
 * @returns {import("./types.js").RunInput}
 */
function inputOfRow(row) {
  if (row === null || row === undefined) return { kind: "file" };
  if (typeof row === "string") return { kind: "text", text: row };
  if (Array.isArray(row)) return { kind: "conversation", messages: row };
  const { text, content, messages, ...rest } = /** @type {Record<string, unknown>} */ (row);
  if (Array.isArray(messages)) return { kind: "conversation", messages };
  if (typeof (text ?? content) === "string") return { kind: "text", text: String(text ?? content) };
  return { kind: "value", value: rest.arguments ?? rest.output ?? row };
}

/** @param {import("./types.js").RunInput} input */
function inputText(input) {
  if (input.kind === "conversation") return transcript(input.messages ?? []);
  if (input.kind === "chunks") return input.chunks ? input.chunks.join("") : (input.text ?? "");
  if (input.kind === "value") return asText(input.value);
  return input.kind === "text" ? (input.text ?? "") : null;
}

/** @param {unknown} value */
export function asText(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** @param {{role?: string, content?: unknown}[]} messages */
export function transcript(messages) {
  return messages.map((one) => `${one.role ?? "?"}: ${asContent(one)}`).join("\n\n");
}

/** @param {{role?: string, content?: unknown} & Record<string, unknown>} message */
function asContent({ content, ...rest }) {
  if (typeof content === "string") return content;
  if (Array.isArray(content) && content.every((part) => typeof part?.text === "string"))
    return content.map((part) => part.text).join("");
  return JSON.stringify(content ?? rest.tool_calls ?? rest.parts ?? null);
}
