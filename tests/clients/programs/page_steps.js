// What the programs in a page share besides steps.js: the plan, the report, and a microphone and an ear.
import { check } from "./steps.js";

/** The plan, which the page's own server has. Recordings are 24 kHz, 16 bits, little endian, mono. */
export async function readPlan() {
  const plan = await (await fetch("plan.json")).json();
  const pcm = async (path) => new Int16Array(await (await fetch(path)).arrayBuffer());
  return { ...plan, question: await pcm("question.pcm"), interruption: await pcm("interruption.pcm") };
}

window.outcomes = [];
export const report = (outcome) => window.outcomes.push(outcome);

/** A microphone that gives what is said, and silence in between. */
export class Microphone {
  #context = new AudioContext({ sampleRate: 48_000 });
  #output = this.#context.createMediaStreamDestination();

  get stream() {
    return this.#output.stream;
  }

  say(pcm) {
    const buffer = this.#context.createBuffer(1, pcm.length, 24_000);
    buffer.copyToChannel(Float32Array.from(pcm, (sample) => sample / 32_768), 0);
    const source = this.#context.createBufferSource();
    source.buffer = buffer;
    source.connect(this.#output);
    source.start();
  }

  stop() {
    return this.#context.close();
  }
}

/** Checks that a peer connection has given out sound. */
export async function checkHeardSound(peer) {
  const reports = [...(await peer.getStats()).values()];
  const inbound = reports.find(({ type, kind }) => type === "inbound-rtp" && kind === "audio");
  check(inbound?.totalAudioEnergy > 0, `nothing was heard: ${JSON.stringify(inbound)}`);
}
