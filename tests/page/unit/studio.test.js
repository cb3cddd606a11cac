import assert from "node:assert/strict";
import { test } from "node:test";
import { DraftError, draftOf, inputOf, kindOf, kindsFor, newDraft, pieces } from "studio/input-model.js";
import { sorted } from "studio/options-model.js";
import { filtered, newRowsState } from "studio/rows-model.js";
import { apply, complete, newRun, runMarks, statusOf, timesOf, traceOf } from "studio/run-model.js";
import { textsOf } from "studio/run-texts.js";
import { textDiff } from "studio/text-diff.js";
import { ago, bytes, cut } from "studio/words.js";

test("the pieces of a difference make up both texts", () => {
  const [before, after] = ["Mail ada@example.com, or call.", "Mail [EMAIL], or write."];
  const difference = textDiff(before, after);
  const side = (/** @type {string} */ without) =>
    difference
      .filter((piece) => piece.kind !== without)
      .map((piece) => piece.text)
      .join("");
  assert.equal(side("added"), before);
  assert.equal(side("removed"), after);
});

test("an address is replaced whole", () => {
  assert.deepEqual(textDiff("to ada@example.com.", "to [EMAIL]."), [
    { kind: "same", text: "to " },
    { kind: "removed", text: "ada@example.com" },
    { kind: "added", text: "[EMAIL]" },
    { kind: "same", text: "." },
  ]);
});

test("texts that are too long to compare are shown as replaced", () => {
  const [before, after] = [4000, 4001].map((number) =>
    Array.from({ length: number }, (_, at) => `${at * number}`).join(" "),
  );
  const difference = textDiff(before ?? "", after ?? "");
  assert.ok(difference.length <= 4);
});

test("a stream is cut between characters, never within one", () => {
  assert.deepEqual(pieces("a😀b", 1), ["a", "😀", "b"]);
  assert.deepEqual(pieces("abc", 0), ["a", "b", "c"]);
});

test("the kinds of input follow from the stage and the workflow", () => {
  const stage = { name: "process_tool_call", doc: "", value: /** @type {const} */ ("arguments"), streams: false };
  assert.deepEqual(kindsFor("workflow", stage), [{ id: "value", label: "Tool call" }]);
  assert.deepEqual(kindsFor("agent", undefined), [{ id: "chat", label: "Chat" }]);
  assert.equal(kindOf({ ...newDraft(), kind: "file" }, kindsFor("workflow", stage)), "value");
});

test("a draft that cannot be sent says why", () => {
  assert.throws(() => inputOf({ ...newDraft(), json: "[{" }, "conversation"), DraftError);
  assert.throws(() => inputOf({ ...newDraft(), json: "{}" }, "conversation"), /JSON array/);
  assert.throws(() => inputOf(newDraft(), "file"), /Choose a file/);
});

test("an input that was sent becomes the same draft again", () => {
  const draft = { ...newDraft(), ...draftOf({ kind: "chunks", chunks: ["ab", "c"] }, false) };
  assert.equal(draft.text, "abc");
  assert.deepEqual(inputOf({ ...draft, size: 2 }, "chunks").chunks, ["ab", "c"]);
  const parts = { kind: "conversation", messages: [{ role: "user", content: "a", name: "b" }] };
  assert.notEqual(draftOf(parts, false).json, null);
});

test("a run that goes on is marked by what has ended and what is running", () => {
  const run = newRun("r1");
  const about = { kind: "step", name: "one", stage: "process_input", at: 0 };
  apply(run, "state", { state: "running" });
  apply(run, "start", { ...about, path: "one" });
  apply(run, "start", { ...about, path: "two", name: "two" });
  const marks = { "step:one": { kind: "edited", words: ["1 edit"] } };
  apply(run, "span", { ...about, id: -1, parent: 5, path: "one", seconds: 1, status: "edited", edits: [], marks });
  assert.equal(runMarks(run).shapes?.get("step:one")?.look, "edited");
  assert.equal(runMarks(run).paths?.get("two")?.kind, "running");
  assert.equal(runMarks(run).wires, undefined, "its way is not known before its end");
  assert.equal(traceOf(run)?.spans[0]?.parent, null);
  assert.equal(statusOf(run).word, "Running");
});

test("an unknown event changes nothing", () => {
  const run = newRun("r1");
  apply(run, "news", { text: "x" });
  assert.deepEqual(run, newRun("r1"));
});

test("rows are added up for each step while they run", () => {
  const run = newRun("r1");
  const row = { line: 1, id: null, seconds: 0, reason: null, step: null, flagged: [], error: null, edits: { pii: 2 } };
  const rows = [
    { ...row, status: "edited" },
    { ...row, status: "blocked", step: "injection", edits: {} },
  ];
  apply(run, "rows", { rows, counts: { edited: 1, blocked: 1 }, done: 2, total: 9 });
  assert.deepEqual(runMarks(run).paths?.get("pii"), { kind: "edited", look: "edited", words: ["2 edits"] });
  assert.deepEqual(runMarks(run).paths?.get("injection"), { kind: "tripped", look: "tripped", words: ["1 stopped"] });
});

test("the stored run has the last word", () => {
  const run = newRun("r1");
  apply(run, "chunk", { text: "live" });
  const agent = { text: "stored", steps: 1, finish_reason: "stop", usage: {}, tool_calls: [] };
  const stored = /** @type {import("studio/types.js").StoredRun} */ (
    /** @type {unknown} */ ({ state: "done", status: "passed", seconds: 2, logs: "", error: null, trace: null, agent })
  );
  complete(run, stored);
  assert.equal(run.text, "stored");
  assert.deepEqual(statusOf(run), { word: "Passed", tone: "passed" });
});

test("sizes, times and long texts are told in few words", () => {
  assert.deepEqual([12, 1400, 2_500_000].map(bytes), ["12 bytes", "1.4 kB", "2.5 MB"]);
  assert.deepEqual(
    [990, 700, 100].map((at) => ago(at, 1000)),
    ["just now", "5 min ago", "15 min ago"],
  );
  assert.equal(cut("😀😀😀", 2), "😀…");
});

test("rows are found by their id, their text and why they were stopped", () => {
  const rest = { seconds: 0, step: null, flagged: [], error: null, edits: {} };
  const rows = [
    {
      ...rest,
      line: 1,
      id: "chat-1",
      text: "Where is my parcel?",
      status: /** @type {const} */ ("passed"),
      reason: null,
    },
    {
      ...rest,
      line: 2,
      id: null,
      text: "Print it",
      status: /** @type {const} */ ("blocked"),
      reason: "prompt injection",
    },
  ];
  const found = (/** @type {string} */ query) => filtered(rows, { ...newRowsState(), query }).map((row) => row.line);
  assert.deepEqual(found("PARCEL where"), [1]);
  assert.deepEqual(found("chat-1"), [1]);
  assert.deepEqual(found("injection"), [2]);
  assert.deepEqual(found("parcel injection"), []);
});

test("a row of a file that was stopped shows what came in", () => {
  const before = (/** @type {unknown} */ row) => textsOf({ kind: "file", line: 3 }, null, "process_input", row).before;
  assert.equal(before({ id: 3, text: "the text" }), "the text");
  assert.equal(before("a plain one"), "a plain one");
  assert.equal(before({ messages: [{ role: "user", content: "hi" }] }), "user: hi");
  assert.equal(before({ arguments: { to: "ann" } }), '{\n  "to": "ann"\n}');
  assert.equal(before(undefined), null);
});

test("a run says its own time first, and then that of the studio", () => {
  const run = newRun("r");
  assert.deepEqual(timesOf(run), []);
  const stored = /** @type {import("../../../penstock/workflows/studio/page/types.js").StoredRun} */ (
    /** @type {unknown} */ ({ state: "done", status: "passed", seconds: 0.868, trace: { seconds: 0.218, spans: [] } })
  );
  complete(run, stored);
  assert.deepEqual(
    timesOf(run).map(({ text }) => text),
    ["218.0 ms", "868.0 ms in the studio"],
  );
});

test("options that are set come first, then the first of the constructor; the rest is folded", () => {
  const fields = Array.from({ length: 30 }, (_, at) => ({ name: `o${at}`, set: at === 20 || at === 4 }));
  const { first, rest } = sorted(/** @type {any} */ (fields));
  assert.deepEqual(
    first.map(({ name }) => name),
    ["o4", "o20", "o0", "o1", "o2", "o3", "o5", "o6"],
  );
  assert.equal(first.length + rest.length, 30);
  assert.ok(rest.every((field) => !field.set));
  const few = sorted(/** @type {any} */ (fields.slice(0, 9)));
  assert.deepEqual([few.first.length, few.rest.length], [9, 0]);
  const all = sorted(/** @type {any} */ (fields.map((field) => ({ ...field, set: true }))));
  assert.deepEqual([all.first.length, all.rest.length], [30, 0]);
});
