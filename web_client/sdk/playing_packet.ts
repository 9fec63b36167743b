/**
 * How far a reply has been played, from the RTP timestamp of what plays. Pure.
 *
 * The server tells at which timestamp a reply begins. The browser tells which packet it gave last to the track, and when:
 *
 *     played = timestamp of that packet − timestamp of the beginning + time since it was given − delay of the output
 *
 * So it does not matter when the event came, nor how much of the reply, or of the one before it, waited in the buffer then, nor
 * what the browser made up, stretched or left out on the way. Chromium names a packet when it decodes it, which is 5 to 15 ms
 * before its first sample leaves; that is not taken off, as the standard promises nothing of the kind.
 * Source: WebRTC, RTCRtpReceiver.getSynchronizationSources; RFC 3550 §5.1.
 */

/** RTP clock of Opus. */
const TICKS_PER_MS = 48;
/** Packets of 20 ms follow each other; when none was given for this long, what sounds is made up, and the front stands. */
const GOES_ON_MS_MAX = 100;

/** The packet that was given last. */
export interface PlayingPacket {
  /** When, in milliseconds of `Date.now()`. */
  readonly at: number;
  /** As it stands in its header. */
  readonly rtpTimestamp: number;
}

/**
 * Read it; null before the first packet, and from a browser that does not tell.
 *
 * @param skewMs what to add to the browser's timestamps to have `Date.now()`.
 */
export function playingPacket(source: Partial<RTCRtpSynchronizationSource> | null, skewMs: number): PlayingPacket | null {
  if (source?.timestamp === undefined || source.rtpTimestamp === undefined) return null;
  return { at: source.timestamp + skewMs, rtpTimestamp: source.rtpTimestamp };
}

/** Milliseconds of the reply that begins at timestamp `rtpStart` played at `now`, heard `outputMs` after they were given. */
export function playedOfPacketMs(rtpStart: number, packet: PlayingPacket, now: number, outputMs: number): number {
  // The difference of two 32-bit numbers that wrap; negative: the reply still waits in the buffer.
  const givenMs = ((packet.rtpTimestamp - rtpStart) | 0) / TICKS_PER_MS;
  if (givenMs < 0) return 0;
  const sinceMs = Math.min(Math.max(0, now - packet.at), GOES_ON_MS_MAX);
  return Math.max(0, givenMs + sinceMs - outputMs);
}
