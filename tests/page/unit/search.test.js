import assert from "node:assert/strict";
import { test } from "node:test";
import { find } from "penstock/search.js";

const steps = [
  {
    path: "pii",
    title: "pii",
    kind: "step",
    role: "guard",
    doc: "Hides e-mail addresses.",
    policy: { timeout: 2, mode: null },
  },
  { path: "long/log", title: "log", kind: "step", role: "observer", stages: ["process_input"], provides: ["language"] },
];

test("a search finds by name, role, docs, stages, facts and policy, in any case", () => {
  assert.deepEqual(find(steps, "PII"), ["pii"]);
  assert.deepEqual(find(steps, "addresses guard"), ["pii"]);
  assert.deepEqual(find(steps, "timeout"), ["pii"]);
  assert.deepEqual(find(steps, "language"), ["long/log"]);
  assert.deepEqual(find(steps, "process_input"), ["long/log"]);
});

test("an empty search finds nothing, and so does one with a word too many", () => {
  assert.deepEqual(find(steps, "  "), []);
  assert.deepEqual(find(steps, "pii observer"), []);
});
