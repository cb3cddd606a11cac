import assert from "node:assert/strict";
import { test } from "node:test";
import { linesOf } from "studio/coverage-model.js";

const cell = { reads: "hides", conditions: ["only text", "unless it fails"], stages: [], own_code: false, held: "" };

test("a channel has its readers with their conditions, and its gaps", () => {
  const table = {
    channels: [
      { name: "answer", title: "The answer" },
      { name: "memory", title: "What a memory loads" },
    ],
    steps: [{ path: "a/b", cells: { answer: cell, memory: { ...cell, reads: "unread" } } }],
    gaps: [{ kind: "secrets", channel: "memory", why: "no step reads it" }],
  };
  assert.deepEqual(linesOf(table), [
    {
      name: "answer",
      title: "The answer",
      readers: [{ path: "a/b", reads: "hides", conditions: "only text, unless it fails" }],
      gaps: [],
    },
    { name: "memory", title: "What a memory loads", readers: [], gaps: ["secrets: no step reads it"] },
  ]);
});
