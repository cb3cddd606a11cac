// Plays streams through the reference's RegexFilterProcessor: a JSON list of pieces in each line of the input,
// what left and the CPU time in a line of the output. `stream_guards.py` starts it.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [folder, given] = process.argv.slice(2);
const { RegexFilterProcessor } = createRequire(`${folder}/`)("@mastra/core/processors");
const { rules, strategy } = JSON.parse(given);
const guard = new RegexFilterProcessor({
  rules: Object.entries(rules).map(([name, pattern]) => ({
    name,
    pattern: new RegExp(pattern, "g"),
    replacement: `[${name.toUpperCase()}]`,
  })),
  strategy,
});

async function play(pieces) {
  const parts = pieces.map((text) => ({ type: "text-delta", payload: { text } }));
  parts.push({ type: "text-end", payload: {} });
  const state = {};
  const left = [];
  const before = process.cpuUsage();
  try {
    for (let index = 0; index < parts.length; index++) {
      const part = await guard.processOutputStream({ part: parts[index], state });
      if (part?.payload.text) left.push([Math.min(index, pieces.length - 1), part.payload.text]);
    }
  } catch (error) {
    if (error.name !== "TripWire" && error.constructor.name !== "TripWire") throw error;
  }
  const { user, system } = process.cpuUsage(before);
  return { seconds: (user + system) / 1e6, left };
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await play(JSON.parse(line)))}\n`);
}
