/** The server's API, as functions. Every failure is an `ApiError` with a sentence for people. */

/** @typedef {import("./types.js").Problem} Problem */

/** An answer that is an error, or no answer at all (`kind` is then `offline`). */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {{kind: string, message: string, path?: string, option?: string | null, problem?: Problem}} details
   */
  constructor(status, details) {
    super(details.message);
    this.name = "ApiError";
    this.status = status;
    this.kind = details.kind;
    this.path = details.path;
    this.option = details.option;
    this.problem = details.problem;
  }
}

/**
 * Ask the server.
 *
 * @param {string} method
 * @param {string} path below `/api/`
 * @param {unknown} [body] is sent as JSON
 * @returns {Promise<any>} the answer; null if it is empty
 * @throws {ApiError}
 */
export async function ask(method, path, body) {
  /** @type {RequestInit} */
  const request = { method };
  if (body !== undefined || method === "POST") {
    request.headers = { "Content-Type": "application/json" };
    request.body = JSON.stringify(body ?? {});
  }
  return answered(await reached(fetch(`/api/${path}`, request)));
}

/**
 * Upload a file of rows, little by little, so that its size does not matter here.
 *
 * @param {File} file
 * @param {(share: number) => void} progress is told how much has been sent, from 0 to 1
 * @returns {{done: Promise<any>, cancel: () => void}}
 */
export function upload(file, progress) {
  const request = new XMLHttpRequest(); // fetch does not tell how much it has sent
  const done = new Promise((resolve, reject) => {
    request.open("POST", `/api/files?name=${encodeURIComponent(file.name)}`);
    request.setRequestHeader("Content-Type", "application/x-ndjson");
    request.upload.onprogress = (event) => progress(event.lengthComputable ? event.loaded / event.total : 0);
    request.onload = () =>
      answered(new Response(request.responseText, { status: request.status })).then(resolve, reject);
    request.onerror = () => reject(offline());
    request.onabort = () => reject(new ApiError(0, { kind: "cancelled", message: "The upload was cancelled." }));
    request.send(file);
  });
  return { done, cancel: () => request.abort() };
}

/** @param {Promise<Response>} response */
async function reached(response) {
  try {
    return await response;
  } catch {
    throw offline();
  }
}

function offline() {
  return new ApiError(0, {
    kind: "offline",
    message: "The studio does not answer. Is `penstock studio` still running?",
  });
}

/** @param {Response} response */
async function answered(response) {
  const text = await response.text();
  if (response.ok && text === "") return null;
  let data = null;
  try {
    data = JSON.parse(text);
  } catch {
    // Handled below: what is not JSON does not come from the studio.
  }
  if (response.ok && data !== null) return data;
  throw new ApiError(response.status, data?.error ?? { kind: "answer", message: unreadable(response.status) });
}

/** @param {number} status */
function unreadable(status) {
  return `The server answered with status ${status || "unknown"} and no explanation.`;
}
