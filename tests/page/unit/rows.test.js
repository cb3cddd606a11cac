import assert from "node:assert/strict";
import { test } from "node:test";
import { ALL, addressOf, chosen } from "report/rows.js";

/** @type {import("../../../penstock/workflows/report/page/types.js").Row[]} */
const rows = [
  { line: 1, id: "chat-1", status: "passed", seconds: 0.2, flagged: ["toxicity"] },
  { line: 2, status: "blocked", seconds: 0.1, reason: "prompt injection", steps: { injection: "tripped" } },
  { line: 3, status: "edited", seconds: 0.3, steps: { pii: "edited" }, text: "Mail Ann" },
];
const lines = (/** @type {Partial<import("report/rows.js").Choice>} */ choice) =>
  chosen(rows, { ...ALL, ...choice }).map((row) => row.line);

test("rows are chosen by status, by flag and by the step that did something", () => {
  assert.deepEqual(lines({}), [1, 2, 3]);
  assert.deepEqual(lines({ status: "blocked" }), [2]);
  assert.deepEqual(lines({ status: "flagged" }), [1]);
  assert.deepEqual(lines({ step: "pii" }), [3]);
  assert.deepEqual(lines({ step: "pii", status: "blocked" }), []);
});

test("a search looks at ids, reasons, texts, flags and steps", () => {
  assert.deepEqual(lines({ query: "CHAT-1" }), [1]);
  assert.deepEqual(lines({ query: "injection prompt" }), [2]);
  assert.deepEqual(lines({ query: "ann" }), [3]);
  assert.deepEqual(lines({ query: "toxicity" }), [1]);
});

test("the slowest come first if asked for, and the rows themselves keep their order", () => {
  assert.deepEqual(lines({ order: "slowest" }), [3, 1, 2]);
  assert.deepEqual(
    rows.map((row) => row.line),
    [1, 2, 3],
  );
});

test("an address names a row by its line, and by its file if there are several", () => {
  const row = /** @type {const} */ ({ line: 17, status: "passed", seconds: 0 });
  assert.equal(addressOf(row), "#line=17");
  assert.equal(
    addressOf({ ...row, file: "a b#\ud800.jsonl" }),
    "#line=17&file=a%20b%23%E2%9F%A8U%2BD800%E2%9F%A9.jsonl",
  );
});
