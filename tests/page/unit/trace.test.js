import assert from "node:assert/strict";
import { test } from "node:test";
import { badgeOf, depthsOf } from "penstock/trace.js";
import { span, trace } from "./helpers.js";

const edit = { message: "m", part: 0, field: "text", start: 0, end: 1, kind: "redact", replacement: "" };

test("a badge says what a step did and how long it took", () => {
  assert.equal(badgeOf(span({ status: "edited", edits: [edit, edit] })), "2 edits · 1.00 ms");
  assert.equal(badgeOf(span({ status: "tripped" })), "stopped · 1.00 ms");
  assert.equal(badgeOf(span({ status: "failed", error: "ValueError" })), "ValueError · 1.00 ms");
  const tripwire = { reason: "r", processor_id: "p", stage: "s", retry: true };
  assert.equal(badgeOf(span({ status: "tripped", tripwire })), "retry · 1.00 ms");
  assert.equal(badgeOf(span({ status: "skipped" })), "not run");
});

test("a step in shadow stops nothing, and its badge says so", () => {
  assert.equal(badgeOf(span({ status: "tripped", shadow: true })), "would stop · 1.00 ms");
  assert.equal(badgeOf(span({ status: "edited", shadow: true, edits: [edit] })), "shadow · 1 edit · 1.00 ms");
});

test("depths follow the parents, and an unknown parent does not break them", () => {
  const spans = [span({ id: 5 }), span({ id: 6, parent: 5 }), span({ id: 7, parent: 6 }), span({ id: 8, parent: 99 })];
  assert.deepEqual([...depthsOf(trace(spans)).values()], [0, 1, 2, 0]);
});
