/**
 * How much of a reply's text the listener has heard, estimated from when its pieces arrived. Pure.
 *
 * The server sends a clause's text with the clause's audio, so a piece is spoken from its arrival on, or from the end of
 * the piece before it if that is later. Within a piece the words pass at an assumed speaking rate, which the caller
 * corrects after each reply that was heard to its end (`learnRate`).
 *
 *     arrival   |piece 0        |piece 1    |piece 2
 *     spoken    |---------------|----------------|--------     (piece 2 waits for the end of piece 1)
 *     now                            ^ words before it are heard
 */

/** A piece of transcript as it came. */
export interface Piece {
  readonly text: string;
  /** When it arrived, in milliseconds of `Date.now()`. */
  readonly at: number;
}

/** Characters per second of an unhurried English voice; the first guess. */
export const INITIAL_RATE = 15;
const RATE_MIN = 8;
const RATE_MAX = 30;
/** A reply shorter than this says too little about the rate. */
const LEARN_MS_MIN = 1000;

/**
 * Characters heard at `now`, cut at a word boundary: a word counts from its first sound.
 *
 * @param soundFrom when the reply became audible; null while it has not.
 * @param rate characters per second.
 */
export function heardLength(pieces: readonly Piece[], soundFrom: number | null, now: number, rate: number): number {
  if (soundFrom === null || now < soundFrom) return 0;
  let spokenUntil = soundFrom;
  let heard = 0;
  for (const piece of pieces) {
    const from = Math.max(spokenUntil, piece.at);
    if (now < from) break;
    const passed = Math.floor(((now - from) / 1000) * rate) + 1;
    if (passed < piece.text.length) {
      heard += passed;
      break;
    }
    heard += piece.text.length;
    spokenUntil = from + (piece.text.length / rate) * 1000;
  }
  return endOfWord(joined(pieces), heard);
}

/** The rate after a reply of `characters` was heard in `tookMs`: half way from the old one, within bounds. */
export function learnRate(rate: number, characters: number, tookMs: number): number {
  if (tookMs < LEARN_MS_MIN || characters === 0) return rate;
  const seen = Math.min(RATE_MAX, Math.max(RATE_MIN, characters / (tookMs / 1000)));
  return (rate + seen) / 2;
}

/** The whole text of the pieces. */
export function joined(pieces: readonly Piece[]): string {
  return pieces.map((piece) => piece.text).join("");
}

function endOfWord(text: string, position: number): number {
  if (position <= 0 || position >= text.length) return Math.max(0, Math.min(position, text.length));
  // A position on white space has begun no further word.
  if (/\s/.test(text.charAt(position - 1))) return position;
  const rest = text.slice(position).search(/\s/);
  return rest === -1 ? text.length : position + rest;
}
