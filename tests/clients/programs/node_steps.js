// What the programs in Node share besides steps.js: the plan, the report, and a microphone that never stops.
import { readFileSync } from "node:fs";

const PIECE_MS = 50;
const PIECE_BYTES = 24 * 2 * PIECE_MS;

/** The plan whose file is the program's argument. Recordings are 24 kHz, 16 bits, little endian, mono. */
export function readPlan() {
  const plan = JSON.parse(readFileSync(process.argv[2], "utf8"));
  return { ...plan, question: readFileSync(plan.question), interruption: readFileSync(plan.interruption) };
}

export const report = (outcome) => process.stdout.write(`${JSON.stringify(outcome)}\n`);

/** Gives pieces of what is said, and of silence in between, at real time, until it is stopped. */
export class Microphone {
  #waiting = [];
  #timer;

  start(give) {
    const began = performance.now();
    let pieces = 0;
    this.#timer = setInterval(() => {
      for (; pieces < (performance.now() - began) / PIECE_MS; pieces++) {
        give(this.#waiting.shift() ?? new Uint8Array(PIECE_BYTES));
      }
    }, PIECE_MS);
  }

  say(pcm) {
    for (let at = 0; at < pcm.length; at += PIECE_BYTES) {
      const piece = new Uint8Array(PIECE_BYTES);
      piece.set(pcm.subarray(at, at + PIECE_BYTES));
      this.#waiting.push(piece);
    }
  }

  stop() {
    clearInterval(this.#timer);
  }
}
