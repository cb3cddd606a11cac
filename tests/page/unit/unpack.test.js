import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { Runs, unpacked } from "report/unpack.js";
import { span, trace } from "./helpers.js";

const packed = (/** @type {unknown} */ value) => gzipSync(JSON.stringify(value)).toString("base64");

test("a block is unpacked to what was packed, in any script", async () => {
  assert.deepEqual(await unpacked(packed([{ text: "日本語 😀 </script>" }])), [{ text: "日本語 😀 </script>" }]);
});

test("a row gets its run, neighbours share a block, and a row without one gets none", async () => {
  const block = packed(
    ["first", "second"].map((name) => ({ trace: trace([span({ name })]), marks: { shapes: {}, wires: [] } })),
  );
  /** @type {string[]} */
  const read = [];
  const runs = new Runs((name) => {
    read.push(name);
    return block;
  });
  const row = { line: 1, status: /** @type {const} */ ("passed"), seconds: 0 };
  assert.equal((await runs.of({ ...row, block: "b0", index: 0 }))?.trace.spans[0]?.name, "first");
  assert.equal((await runs.of({ ...row, block: "b0", index: 1 }))?.trace.spans[0]?.name, "second");
  assert.equal(await runs.of({ ...row, block: "b0", index: 7 }), null);
  assert.equal(await runs.of(row), null);
  assert.deepEqual(read, ["b0"]);
});
