import assert from "node:assert/strict";
import { test } from "node:test";
import {
  answerOf,
  beside,
  decisionWords,
  fieldsOf,
  parsed,
  pretty,
  span,
  standOf,
  timesOf,
  undecided,
  verdictField,
} from "studio/reviews-model.js";

const NOW = Date.parse("2026-03-01T12:00:00Z");

/** @param {Partial<import("studio/reviews-model.js").WaitingRun>} more */
const run = (more = {}) => ({
  run_id: "r",
  agent: "shop",
  status: /** @type {const} */ ("waiting"),
  thread_id: null,
  resource_id: null,
  question: "",
  text: "",
  created_at: "2026-03-01T11:55:00Z",
  due_at: null,
  calls: [],
  here: null,
  can_go_on: false,
  ...more,
});

/** @param {Partial<import("studio/reviews-model.js").WaitingCall>} more */
const call = (more = {}) => ({
  call_id: "c",
  tool: "refund",
  arguments: {},
  kind: /** @type {const} */ ("approval"),
  decision: null,
  ...more,
});

const REVIEW = {
  type: "object",
  properties: {
    decision: { enum: ["approve", "reject"] },
    reason: { type: "string" },
    amount: { type: "number" },
    sure: { type: "boolean" },
    tags: { type: "array" },
  },
  required: ["decision", "tags"],
};

test("a request says how long it waits and until when", () => {
  assert.equal(timesOf(run(), NOW), "waits 5 min");
  assert.equal(timesOf(run({ due_at: "2026-03-08T12:00:00Z" }), NOW), "waits 5 min, expires in 7 days");
  assert.equal(timesOf(run({ due_at: "2026-03-01T12:00:00Z" }), NOW), "waits 5 min, its time is over");
  assert.equal(timesOf(run({ status: "ended" }), NOW), "began 5 min ago");
  const lost = run({ status: "running", due_at: "2026-03-01T11:00:00Z" });
  assert.equal(timesOf(lost, NOW), "goes on, its process may have died");
});

test("spans of time are said in the unit that suits them", () => {
  assert.deepEqual([-3, 59, 60, 7200, 86_400, 172_800].map(span), ["0 s", "59 s", "1 min", "2 h", "24 h", "2 days"]);
});

test("a call says what it waits for, or how it was decided", () => {
  assert.equal(standOf(call()), "waits for approval");
  assert.equal(standOf(call({ kind: "question" })), "waits for an answer");
  assert.equal(standOf(call({ kind: "run", inner: "r2" })), "waits for its own request");
  const decision = /** @type {const} */ ({ verdict: "reject", by: "eve", at: "2026-03-01T11:59:00Z", reason: "late" });
  assert.equal(standOf(call({ decision })), "rejected");
  assert.equal(decisionWords(decision, NOW), "rejected by eve, 1 min ago: late");
  assert.equal(undecided(run({ calls: [call({ decision }), call({ call_id: "d" })] }))[0]?.call_id, "d");
});

test("the requests of the list are gone through from either end", () => {
  const runs = ["a", "b", "c"].map((run_id) => run({ run_id }));
  assert.equal(beside(runs, "c", 1), "a");
  assert.equal(beside(runs, "a", -1), "c");
  assert.equal(beside(runs, "gone", 1), "a");
  assert.equal(beside(runs, null, -1), "c");
  assert.equal(beside([], null, 1), null);
});

test("the form of an answer has a field for each property of its schema", () => {
  const fields = fieldsOf(REVIEW);
  assert.deepEqual(
    fields.map(({ name, kind, required }) => [name, kind, required]),
    [
      ["decision", "choice", true],
      ["reason", "text", false],
      ["amount", "number", false],
      ["sure", "bool", false],
      ["tags", "json", true],
    ],
  );
  assert.equal(verdictField(fields)?.name, "decision");
  assert.equal(verdictField(fieldsOf({ type: "string" })), undefined);
});

test("an answer has what was written; empty fields that need not be there are left out", () => {
  const written = { decision: "approve", reason: "", amount: "2.5", sure: false, tags: '["a"]' };
  const made = { decision: "approve", amount: 2.5, sure: false, tags: ["a"] };
  assert.deepEqual(answerOf(fieldsOf(REVIEW), written), made);
  assert.throws(() => answerOf(fieldsOf(REVIEW), { decision: "approve" }), /tags is missing/);
  assert.throws(() => answerOf(fieldsOf(REVIEW), { ...written, amount: "two" }), /amount is a number/);
  assert.throws(() => answerOf(fieldsOf(REVIEW), { ...written, tags: "[" }), /tags is not JSON/);
});

test("an answer without properties is one value", () => {
  assert.equal(answerOf(fieldsOf({ type: "string" }), { "": "" }), "");
  assert.equal(answerOf(fieldsOf({ type: "integer" }), { "": "7" }), 7);
  assert.deepEqual(answerOf(fieldsOf(null), { "": '{"ok": 1}' }), { ok: 1 });
  assert.throws(() => answerOf(fieldsOf(null), {}), /The answer is missing/);
});

test("arguments are shown as JSON on several lines, and read again", () => {
  const value = { order: 7, note: "é" };
  assert.equal(pretty(value), '{\n  "order": 7,\n  "note": "é"\n}');
  assert.equal(pretty("text"), "text");
  assert.deepEqual(parsed(pretty(value), "It"), value);
  assert.throws(() => parsed("{", "It"), /It is not JSON/);
});
