// Reads diagrams (a JSON array of texts on stdin) with Mermaid itself, and says what it understood (JSON on stdout):
// for each the nodes, edges and subgraphs with the text a reader would see and the markup in it, or Mermaid's error.
import { readFileSync } from "node:fs";
import { JSDOM } from "jsdom";

const { window } = new JSDOM("<!DOCTYPE html><body></body>");
globalThis.window = window;
globalThis.document = window.document;
const { default: mermaid } = await import("mermaid");
mermaid.initialize({ startOnLoad: false });

function seen(label) {
  const element = window.document.createElement("div");
  // Mermaid hides the entities of a text from its own parser behind these letters, and puts them back when it draws.
  element.innerHTML = (label ?? "").replaceAll("ﬂ°°", "&#").replaceAll("ﬂ°", "&").replaceAll("¶ß", ";");
  const tags = [...element.querySelectorAll("*")].map((one) => one.tagName.toLowerCase());
  for (const line of element.querySelectorAll("br")) line.replaceWith("\n");
  return { text: element.textContent, tags };
}

async function read(text) {
  try {
    const { db, type } = await mermaid.mermaidAPI.getDiagramFromText(text);
    return {
      type,
      nodes: [...db.getVertices().values()].map((one) => ({ id: one.id, classes: one.classes, ...seen(one.text) })),
      edges: db.getEdges().map((one) => ({ from: one.start, to: one.end, stroke: one.stroke, ...seen(one.text) })),
      groups: db.getSubGraphs().map((one) => ({ id: one.id, nodes: one.nodes, ...seen(one.title) })),
    };
  } catch (error) {
    return { error: String(error?.message ?? error) };
  }
}

const read_all = [];
for (const text of JSON.parse(readFileSync(0, "utf8"))) read_all.push(await read(text));
process.stdout.write(JSON.stringify(read_all));
