/**
 * How far a reply has been played, from what the browser says of its jitter buffer. Pure.
 *
 * `jitterBufferEmittedCount` counts the samples that have left the jitter buffer, without those that were made up for lost
 * ones (concealment). Between replies the server sends no sound (DTX), so the count stands still, and
 *
 *     played = emitted when the browser counted − emitted when the reply began + time since it counted
 *              − half a packet − delay of the output
 *
 * A packet is counted as a whole when its first sample is taken, so a count is ahead by nothing to one packet, half of one in
 * the mean. What has left the buffer is heard after the delay of the browser's output, which it estimates for each sample.
 *
 * A reply that follows another without a pause begins behind that one's rest, which waits in the buffer: then its front is
 * ahead by one buffer's length. Silence that the server puts into a reply that runs dry counts as played.
 * Source: Identifiers for WebRTC's Statistics API, RTCInboundRtpStreamStats and RTCAudioPlayoutStats.
 */

/** RTP clock of Opus; the counts are in its samples. */
const SAMPLES_PER_MS = 48;
/** Length of a packet of the server's. */
const PACKET_MS = 20;
/** In a pause one packet in this time says that there is silence; it is counted like any other. */
const SILENCE_EVERY_MS = 400;
/** Emitting less than this share of the time is a pause. */
const RESTING_SHARE = 0.25;

/** The jitter buffer of the model's voice at one moment. Counts are cumulative. */
export interface Playout {
  /** When the browser counted, in milliseconds of `Date.now()`. */
  readonly at: number;
  /** Samples that left the jitter buffer, concealment excluded. */
  readonly emitted: number;
  /** Sum of the time that each emitted sample spent in the buffer, in seconds. */
  readonly bufferedS: number;
  /** All samples played, of which concealed, of which silently: in a pause, where nothing was lost. */
  readonly received: number;
  readonly concealed: number;
  readonly silentConcealed: number;
  /** Samples by which what was played is longer than what left the buffer (time-stretching, to fill or empty it). */
  readonly stretched: number;
  /** Samples that the output has asked for, and the sum of their delays until they are heard, in seconds; 0: not known. */
  readonly outputs: number;
  readonly outputDelayS: number;
}

/** Not yet in TypeScript's library of the DOM. */
interface RTCAudioPlayoutStats extends RTCStats {
  readonly totalPlayoutDelay?: number;
  readonly totalSamplesCount?: number;
}

/**
 * Read it from a report of `getStats`; null where there is no incoming voice yet.
 *
 * @param skewMs what to add to the browser's timestamps to have `Date.now()`.
 */
export function playoutOf(report: readonly RTCStats[], skewMs: number): Playout | null {
  const found = report.find((stats) => stats.type === "inbound-rtp" && (stats as RTCInboundRtpStreamStats).kind === "audio");
  if (found === undefined) return null;
  const voice = found as RTCInboundRtpStreamStats;
  const output = report.find((stats) => stats.type === "media-playout") as RTCAudioPlayoutStats | undefined;
  return {
    at: voice.timestamp + skewMs,
    emitted: voice.jitterBufferEmittedCount ?? 0,
    bufferedS: voice.jitterBufferDelay ?? 0,
    received: voice.totalSamplesReceived ?? 0,
    concealed: voice.concealedSamples ?? 0,
    silentConcealed: voice.silentConcealedSamples ?? 0,
    stretched: (voice.insertedSamplesForDeceleration ?? 0) - (voice.removedSamplesForAcceleration ?? 0),
    outputs: output?.totalSamplesCount ?? 0,
    outputDelayS: output?.totalPlayoutDelay ?? 0,
  };
}

/** Whether nothing sounded between two counts. */
export function rested(before: Playout, after: Playout): boolean {
  return after.emitted - before.emitted < (after.at - before.at) * SAMPLES_PER_MS * RESTING_SHARE;
}

/**
 * The count from which a reply began. Events and sound take different ways: the event may come when some of it has been played.
 *
 * @param rest the last count in the pause before it; null: there was none.
 * @param event the count when its `output_audio_buffer.started` arrived.
 */
export function beginning(rest: Playout | null, event: Playout): Playout {
  if (rest === null) return event;
  const silentMs = PACKET_MS * (1 + Math.floor((event.at - rest.at) / SILENCE_EVERY_MS));
  // More than the pause can have had is of the reply.
  return event.emitted - rest.emitted > silentMs * SAMPLES_PER_MS ? rest : event;
}

/** Milliseconds of the reply played at `now`, when it began at `begun` and `latest` was counted last. */
export function playedMs(begun: Playout, latest: Playout, now: number): number {
  const emittedMs = (latest.emitted - begun.emitted) / SAMPLES_PER_MS;
  // Before its first sample comes out the time since the count says nothing.
  if (emittedMs <= 0) return 0;
  return Math.max(0, emittedMs + Math.max(0, now - latest.at) - PACKET_MS / 2 - outputMs(begun, latest));
}

/** Mean delay of the output between two counts, in milliseconds; 0 where the browser does not tell it. */
export function outputMs(before: Playout, after: Playout): number {
  const outputs = after.outputs - before.outputs;
  return outputs <= 0 ? 0 : ((after.outputDelayS - before.outputDelayS) / outputs) * 1000;
}

/** How much longer it took to play what has left the buffer, because the browser stretched it, in milliseconds; negative: shorter. */
export function stretchedMs(playout: Playout): number {
  return playout.stretched / SAMPLES_PER_MS;
}

/** Mean time in the jitter buffer between two counts, in milliseconds; null where nothing came out. */
export function bufferMs(before: Playout, after: Playout): number | null {
  const emitted = after.emitted - before.emitted;
  return emitted <= 0 ? null : ((after.bufferedS - before.bufferedS) / emitted) * 1000;
}

/** Sound that was made up because packets were missing, in milliseconds. */
export function concealedMs(playout: Playout): number {
  return (playout.concealed - playout.silentConcealed) / SAMPLES_PER_MS;
}
