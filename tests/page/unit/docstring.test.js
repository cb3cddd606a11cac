import assert from "node:assert/strict";
import { test } from "node:test";
import { blocksOf, literalsOf } from "penstock/docstring.js";

test("lines of a paragraph are joined, and sections are told apart", () => {
  const doc =
    "Finds things,\nand hides them.\n\nArgs:\n    name: what it\n        is called.\n    other: more.\n\nThe end.";
  assert.deepEqual(blocksOf(doc), [
    { kind: "text", text: "Finds things, and hides them." },
    { kind: "heading", text: "Args" },
    { kind: "item", text: "name: what it is called." },
    { kind: "item", text: "other: more." },
    { kind: "text", text: "The end." },
  ]);
});

test("a paragraph that ends with a colon is no heading", () => {
  assert.deepEqual(blocksOf("It does this:\n    that"), [
    { kind: "text", text: "It does this:" },
    { kind: "item", text: "that" },
  ]);
});

test("no docstring has no blocks", () => {
  assert.deepEqual(blocksOf(""), []);
});

test("literals stand in one or two backticks, and a single backtick is text", () => {
  assert.deepEqual(literalsOf("use ``a`` or `b`, not ` alone"), [
    { text: "use ", code: false },
    { text: "a", code: true },
    { text: " or ", code: false },
    { text: "b", code: true },
    { text: ", not ` alone", code: false },
  ]);
});
