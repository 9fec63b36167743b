/** The browser SDK: a conversation over WebRTC, its state, and its parts for those who build their own. */
export type * as wire from "./events.gen.ts";
export { Conversation, type ConversationOptions, type Traffic } from "./conversation.ts";
export { type MeterReport, type Side, SoundMeter } from "./meter.ts";
export { PLAYBACK_EVERY_MS, PlaybackReporter, type PlayedFront } from "./playback_reporter.ts";
export { bufferMs, concealedMs, type Playout, playoutOf, stretchedMs } from "./playback.ts";
export { ConnectError, type CaptureCause, type Problem } from "./problem.ts";
export {
  type ClientEvent,
  decode,
  type Decoded,
  encode,
  type Item,
  type LatencySplit,
  type ServerEvent,
  type SessionUpdate,
  SPLIT_PARTS,
} from "./protocol.ts";
export { reduce } from "./reduce.ts";
export { type ClientSecret, createClientSecret, readSecret, type SecretOptions } from "./secret.ts";
export { type Ticket } from "./ticket.ts";
export {
  type BreakCaption,
  type CameraState,
  type Caption,
  type ForgottenCaption,
  type Happening,
  heardAndAhead,
  INITIAL,
  isLive,
  type LocalEvent,
  type MicrophoneState,
  type Phase,
  type ReplyCaption,
  type Timing,
  type Ttfas,
  ttfasHeard,
  type UserCaption,
  type ViewState,
} from "./state.ts";
export type { ConnectOptions, Transport, TransportListener } from "./transport.ts";
export { WebRtcTransport, type WebRtcOptions } from "./webrtc.ts";
