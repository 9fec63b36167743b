/** The view state of a conversation, what can happen to it, and what can be read from it. Pure. */
import { heardLength, INITIAL_RATE, joined, type Piece } from "./heard.ts";
import type { Problem } from "./problem.ts";
import type { LatencySplit, ServerEvent } from "./protocol.ts";

export type Phase = "idle" | "connecting" | "reconnecting" | "listening" | "thinking" | "speaking" | "interrupted";
export type MicrophoneState = "off" | "live" | "muted" | "paused";
export type CameraState = "off" | "opening" | "on";

export interface UserCaption {
  readonly kind: "user";
  readonly id: string;
  readonly text: string;
  readonly by: "voice" | "text";
  /** speaking: no end yet; waiting: no transcript yet; failed: there will be none. */
  readonly progress: "speaking" | "waiting" | "final" | "failed";
  /** The turn was ended at this length, the greatest, while it sounded on. */
  readonly limitedMs?: number;
}

export interface ReplyCaption {
  readonly kind: "reply";
  /** The item's id. */
  readonly id: string;
  readonly responseId: string;
  readonly pieces: readonly Piece[];
  readonly modality: "audio" | "text";
  readonly status: "in_progress" | "completed" | "cancelled" | "failed" | "incomplete";
  /** queued: nothing heard yet; cut: what was unheard is void. */
  readonly playout: "queued" | "playing" | "drained" | "cut";
  /** When its sound began, and when it was cut, in milliseconds of `Date.now()`. */
  readonly soundFrom: number | null;
  readonly cutAt: number | null;
  /** After a cut, the words that the server holds as heard; null until it has said so. */
  readonly heardText: string | null;
  /** The server's reason for a failed or incomplete reply. */
  readonly reason: string;
  readonly timing: Timing;
}

/** A new conversation begins; the server remembers nothing of what is above. */
export interface BreakCaption {
  readonly kind: "break";
  readonly id: string;
}

/** The conversation outgrew what the model can be given: it gets nothing of what is above any more. */
export interface ForgottenCaption {
  readonly kind: "forgotten";
  readonly id: string;
}

export type Caption = UserCaption | ReplyCaption | BreakCaption | ForgottenCaption;

/**
 * What is known of a turn's time to first audible sample.
 *
 * The user's end of speech cannot be read off a clock here: the server names it in its own media time. But the server
 * says how long it waited after it (`endpointing` in `duplex.metrics`), and its decision reaches us as an event. So
 *
 *     end of speech (page clock) = arrival of input_audio_buffer.committed − RTT / 2 − endpointing
 *
 * So it leaves out what the server's voice detector adds to the true end (about 0.1 s) and the way of the speech to the
 * server. A typed turn has no endpointing: it counts from the sending.
 */
export interface Timing {
  readonly by: "voice" | "text";
  /** When the turn's end was known here, in milliseconds of `Date.now()`; null: the reply answers no turn of the user. */
  readonly turnAt: number | null;
  readonly rttMs: number;
  /** First audible sample of the reply in the remote stream. */
  readonly audibleAt: number | null;
  readonly split: LatencySplit | null;
}

export interface AwaitedTurn extends Pick<Timing, "by" | "turnAt"> {
  /** The item of the turn; null: a reply is asked for again. */
  readonly itemId: string | null;
}

export interface ViewState {
  readonly phase: Phase;
  readonly userSpeaking: boolean;
  readonly microphone: MicrophoneState;
  readonly camera: CameraState;
  readonly problem: Problem | null;
  readonly captions: readonly Caption[];
  /** The reply that is being made, and the one that is being heard: often, not always, the same. */
  readonly makingId: string | null;
  readonly playingId: string | null;
  /** Replies whose item is not known yet. */
  readonly timings: Readonly<Record<string, Timing>>;
  /** Responses beside the conversation that are being made: nothing of them is a turn of it. */
  readonly besideIds: readonly string[];
  /** The turn that waits for its reply to be created. */
  readonly turn: AwaitedTurn | null;
  /** When the remote stream last became audible, and when it fell silent after that; null: it has not. */
  readonly sound: { readonly from: number; readonly until: number | null } | null;
  readonly rttMs: number;
  /** Speaking rate of the assistant's voice, in characters per second. */
  readonly rate: number;
  /** The connection that is being made leads back to the conversation that is shown, or was shown before a reload. */
  readonly resuming: boolean;
  /** Conversations begun so far. */
  readonly conversations: number;
  /** The server keeps a record of this conversation. */
  readonly recorded: boolean;
  /** When it will have its greatest length, in milliseconds of `Date.now()`; null: that is not near. */
  readonly endsAt: number | null;
}

export const INITIAL: ViewState = {
  phase: "idle",
  userSpeaking: false,
  microphone: "off",
  camera: "off",
  problem: null,
  captions: [],
  makingId: null,
  playingId: null,
  timings: {},
  besideIds: [],
  turn: null,
  sound: null,
  rttMs: 0,
  rate: INITIAL_RATE,
  resuming: false,
  conversations: 0,
  recorded: false,
  endsAt: null,
};

/** What the page itself sees happen, beside the server's events. */
export type LocalEvent =
  | { readonly type: "local.connecting" }
  /** The connection was lost, or the page was loaded anew, and the conversation may go on. */
  | { readonly type: "local.reconnecting" }
  | { readonly type: "local.ended" }
  | { readonly type: "local.problem"; readonly problem: Problem }
  | { readonly type: "local.dismissed" }
  | { readonly type: "local.microphone"; readonly microphone: MicrophoneState }
  | { readonly type: "local.camera"; readonly camera: CameraState }
  /** The user typed a message. */
  | { readonly type: "local.said"; readonly itemId: string; readonly text: string }
  | { readonly type: "local.retried" }
  /** The remote stream became audible or silent. */
  | { readonly type: "local.sound"; readonly on: boolean }
  | { readonly type: "local.rtt"; readonly rttMs: number }
  /** The display of an interruption is over. */
  | { readonly type: "local.settled" };

/** One event and when it was seen, in milliseconds of `Date.now()`. */
export interface Happening {
  readonly at: number;
  readonly event: ServerEvent | LocalEvent;
}

/** A reply's text in two parts: what has been heard at `now`, and what is still ahead of the ear (void after a cut). */
export function heardAndAhead(reply: ReplyCaption, now: number, rate: number): { heard: string; ahead: string } {
  const text = joined(reply.pieces);
  if (reply.modality === "text" || reply.playout === "drained") return { heard: text, ahead: "" };
  if (reply.playout === "cut" && reply.heardText !== null) return { heard: reply.heardText, ahead: "" };
  const length = heardLength(reply.pieces, reply.soundFrom, reply.cutAt ?? now, rate);
  return { heard: text.slice(0, length), ahead: reply.playout === "cut" ? "" : text.slice(length) };
}

/** A turn's time to first audible sample, and what it counts from. */
export interface Ttfas {
  readonly ms: number;
  /** The end of the user's speech; the server's decision that the turn was over (the most that is known); the sending. */
  readonly from: "speech" | "turn" | "sending";
}

/**
 * The turn's time to first audible sample as this page measured it; null while nothing is audible, and where the sound came
 * before the event of the turn's end: that event was late, and there is no figure.
 */
export function ttfasHeard(timing: Timing): Ttfas | null {
  if (timing.turnAt === null || timing.audibleAt === null || timing.audibleAt < timing.turnAt) return null;
  const sinceTurn = timing.audibleAt - timing.turnAt;
  if (timing.by === "text") return { ms: sinceTurn, from: "sending" };
  const decided = sinceTurn + timing.rttMs / 2;
  const endpointing = timing.split?.endpointing;
  return endpointing === undefined
    ? { ms: decided, from: "turn" }
    : { ms: decided + endpointing * 1000, from: "speech" };
}

/** Whether a conversation is up. */
export function isLive(state: ViewState): boolean {
  return state.phase !== "idle" && state.phase !== "connecting" && state.phase !== "reconnecting";
}
