/** The lines of a coverage: each channel with the steps that read it, and the gaps in it. */

/** @typedef {import("./types.js").CoverageTable} CoverageTable */

/**
 * @param {CoverageTable} table
 * @returns {{name: string, title: string, readers: {path: string, reads: string, conditions: string}[], gaps: string[]}[]}
 */
export function linesOf({ channels, steps, gaps }) {
  return channels.map(({ name, title }) => ({
    name,
    title,
    readers: steps.flatMap(({ path, cells }) => {
      const cell = cells[name];
      if (!cell || cell.reads === "unread") return [];
      return [{ path, reads: cell.reads, conditions: cell.conditions.join(", ") }];
    }),
    gaps: gaps.filter((gap) => gap.channel === name).map((gap) => `${gap.kind}: ${gap.why}`),
  }));
}
