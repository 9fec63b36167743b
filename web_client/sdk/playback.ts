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
/** Emitting less than this share of the time is a pause: only now and then a packet says that there is silence. */
const RESTING_SHARE = 0.25;
/** More than this emitted when the event of a beginning arrives was emitted of that reply: the event was late. */
const LATE_MS = 100;

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

/** Whether nothing sounded between two counts. */
export function rested(before: Playout, after: Playout): boolean {
  return after.emitted - before.emitted < (after.at - before.at) * SAMPLES_PER_MS * RESTING_SHARE;
}

/**
 * The count from which a reply began.
 *
 * @param rest the last count in the pause before it; null: there was none.
 * @param event the count when its `output_audio_buffer.started` arrived. Events and sound take different ways.
 */
export function beginning(rest: Playout | null, event: Playout): Playout {
  return rest !== null && event.emitted - rest.emitted > LATE_MS * SAMPLES_PER_MS ? rest : event;
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
