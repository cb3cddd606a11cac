/** Runs of a report: compressed blocks in the file, which are unpacked when a row is opened. */

/** @typedef {import("../../../pictures/page/types.js").Trace} Trace */
/** @typedef {import("../../../pictures/page/types.js").RunMarks} RunMarks */
/** @typedef {{trace: Trace, marks: RunMarks}} Ran the trace of a run, and its marks of the picture */

/**
 * @param {string} packed gzip in base64, of JSON
 * @returns {Promise<unknown>}
 */
export async function unpacked(packed) {
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

export class Runs {
  /** @param {(block: string) => unknown} read returns a block of the file */
  constructor(read) {
    this.read = read;
    /** @type {{name: string, runs: Ran[]} | null} the block that was unpacked last: neighbours are read together */
    this.last = null;
  }

  /**
   * @param {import("./types.js").Row} row
   * @returns {Promise<Ran | null>} its run, if the file has it
   */
  async of({ block, index }) {
    if (block === undefined || index === undefined) return null;
    if (this.last?.name !== block) {
      this.last = { name: block, runs: /** @type {Ran[]} */ (await unpacked(String(this.read(block)))) };
    }
    return this.last.runs[index] ?? null;
  }
}
