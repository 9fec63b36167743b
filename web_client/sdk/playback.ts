/**
 * How far a reply has been played, from what the browser says of its jitter buffer. Pure.
 *
 * `jitterBufferEmittedCount` counts the samples that have left the jitter buffer, without those that were made up for lost
 * ones (concealment). Between replies the server sends no sound (DTX), so the count stands still, and
 *
 *     played = emitted now − emitted when the reply began + what has been emitted since the browser counted
 *
 * A reply that follows another without a pause begins behind that one's rest, which waits in the buffer: then its front is
 * ahead by one buffer's length. Silence that the server puts into a reply that runs dry counts as played.
 * Source: Identifiers for WebRTC's Statistics API, RTCInboundRtpStreamStats.
 */

/** RTP clock of Opus; the counts are in its samples. */
const SAMPLES_PER_MS = 48;

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
  return {
    at: voice.timestamp + skewMs,
    emitted: voice.jitterBufferEmittedCount ?? 0,
    bufferedS: voice.jitterBufferDelay ?? 0,
    received: voice.totalSamplesReceived ?? 0,
    concealed: voice.concealedSamples ?? 0,
    silentConcealed: voice.silentConcealedSamples ?? 0,
  };
}

/** Milliseconds of the reply played at `now`, when it began at `begun` and `latest` was counted last. */
export function playedMs(begun: Playout, latest: Playout, now: number): number {
  const emittedMs = (latest.emitted - begun.emitted) / SAMPLES_PER_MS;
  // Before its first sample comes out the time since the count says nothing.
  return emittedMs <= 0 ? 0 : emittedMs + Math.max(0, now - latest.at);
}

/** Mean time in the jitter buffer between two counts, in milliseconds; null where nothing came out. */
export function bufferMs(before: Playout, after: Playout): number | null {
  const emitted = after.emitted - before.emitted;
  return emitted <= 0 ? null : ((after.bufferedS - before.bufferedS) / emitted) * 1000;
}

/** Sound that was made up because packets were missing, in milliseconds since the beginning. */
export function concealedMs(playout: Playout): number {
  return (playout.concealed - playout.silentConcealed) / SAMPLES_PER_MS;
}
