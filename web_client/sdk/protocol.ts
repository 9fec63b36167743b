/**
 * The wire: what the server says (`ServerEvent`, by `decode`) and what we say (`ClientEvent`, by `encode`).
 *
 * Pure. Only the fields that a client needs are read; an unknown type or field is let pass, because servers grow.
 * Names follow the OpenAI Realtime API in its GA shape; our additions carry the prefix `duplex.`. What is read and written
 * is held to the wire's own types, which are made from the server's models: a name that is not there does not compile.
 */

import type * as wire from "./events.gen.ts";

/** A conversation item as the page needs it: who said what. */
export interface Item {
  readonly id: string;
  /** It was there before this connection: the server shows the conversation that we have come back to. */
  readonly restored?: true;
  /** Of a restored one: the assistant was stopped before all of it was heard. */
  readonly cut?: true;
  /** It ended early: it was cut, failed, or came to a bound. */
  readonly incomplete?: true;
  /** `null` for items that are not messages, such as function calls. */
  readonly role: "user" | "assistant" | "system" | null;
  /** Text and transcripts of all content parts, joined; empty while none is there. */
  readonly text: string;
  /** Whether the content is audio with a transcript. */
  readonly spoken: boolean;
}

export type ResponseStatus = wire.Response["status"];

/** The server's breakdown of one turn's latency, in seconds; a part that did not occur is absent. */
export type LatencySplit = wire.LatencySplit;

export const SPLIT_PARTS = [
  "endpointing",
  "transcribe",
  "think",
  "talk",
  "vocode",
  "send",
] as const satisfies readonly (keyof LatencySplit)[];

export type ServerEvent =
  | { readonly type: "session.created"; readonly recorded?: true }
  | { readonly type: "session.updated"; readonly recorded?: true }
  /** We have come back. */
  | { readonly type: "duplex.session.resumed" }
  | { readonly type: "duplex.session.token"; readonly token: string; readonly windowMs: number }
  | { readonly type: "duplex.session.ending"; readonly leftMs: number }
  /** The turn had its greatest length and was taken as it stood; what sounds on is the next. */
  | { readonly type: "duplex.turn.limited"; readonly itemId: string; readonly audioMs: number }
  /** The model gets no item before this one any more. */
  | { readonly type: "duplex.context.trimmed"; readonly firstItemId: string }
  | { readonly type: "error"; readonly code: string; readonly message: string; readonly clientEventId: string | null }
  | { readonly type: "input_audio_buffer.speech_started"; readonly itemId: string }
  | { readonly type: "input_audio_buffer.speech_stopped"; readonly itemId: string }
  | { readonly type: "input_audio_buffer.committed"; readonly itemId: string }
  | { readonly type: "input_audio_buffer.cleared" }
  | { readonly type: "conversation.item.added"; readonly item: Item }
  | { readonly type: "conversation.item.done"; readonly item: Item }
  | { readonly type: "conversation.item.retrieved"; readonly item: Item }
  | { readonly type: "conversation.item.deleted"; readonly itemId: string }
  | { readonly type: "conversation.item.truncated"; readonly itemId: string; readonly audioEndMs: number }
  | {
      readonly type: "conversation.item.input_audio_transcription.delta";
      readonly itemId: string;
      readonly delta: string;
    }
  | {
      readonly type: "conversation.item.input_audio_transcription.completed";
      readonly itemId: string;
      readonly transcript: string;
    }
  | { readonly type: "conversation.item.input_audio_transcription.failed"; readonly itemId: string }
  | {
      readonly type: "response.created";
      readonly responseId: string;
      /** It is out of band: in no conversation. */
      readonly beside?: true;
    }
  | { readonly type: "response.output_item.added"; readonly responseId: string; readonly item: Item }
  | ({ readonly type: "response.output_audio_transcript.delta" } & ReplyDelta)
  | ({ readonly type: "response.output_text.delta" } & ReplyDelta)
  | {
      readonly type: "response.done";
      readonly responseId: string;
      readonly status: ResponseStatus;
      /** Why it was cancelled or is incomplete, or the error of a failed one; empty if unsaid. */
      readonly reason: string;
    }
  | {
      readonly type: "output_audio_buffer.started";
      readonly responseId: string;
      /** RTP timestamp of the reply's first sample, where the server tells. */
      readonly rtpStart?: number;
    }
  | { readonly type: "output_audio_buffer.stopped"; readonly responseId: string }
  | { readonly type: "output_audio_buffer.cleared"; readonly responseId: string }
  | { readonly type: "duplex.metrics"; readonly responseId: string; readonly split: LatencySplit };

interface ReplyDelta {
  readonly responseId: string;
  readonly itemId: string;
  readonly delta: string;
}

/** What came of one message: an event, a type that this client does not use, or something unreadable. */
export type Decoded =
  | { readonly kind: "event"; readonly event: ServerEvent; readonly id?: string }
  | { readonly kind: "unused"; readonly type: string; readonly id?: string }
  | { readonly kind: "unreadable"; readonly reason: string };

/** How a session is to be: what a client wants otherwise than the server's defaults. */
export type SessionUpdate = wire.SessionUpdate;

/** What a client may say, in the wire's own names. */
export type ClientEvent = wire.ClientEvent;

/** One client event as the text of a data channel message. */
export function encode(event: ClientEvent): string {
  return JSON.stringify(event);
}

/** Read one data channel message. Never throws, whatever the text. */
export function decode(text: string): Decoded {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return { kind: "unreadable", reason: "not JSON" };
  }
  if (!isFields(parsed) || typeof parsed["type"] !== "string") {
    return { kind: "unreadable", reason: "not an object with a type" };
  }
  const type = parsed["type"];
  const id = typeof parsed["event_id"] === "string" ? { id: parsed["event_id"] } : {};
  if (!isUsed(type)) return { kind: "unused", type, ...id };
  const read: (fields: Unchecked) => ServerEvent = READERS[type];
  try {
    return { kind: "event", event: read(parsed), ...id };
  } catch (error) {
    if (error instanceof FieldError) return { kind: "unreadable", reason: `${type}: ${error.message}` };
    throw error;
  }
}

declare const SHAPE: unique symbol;
/** An object as it came. `Wire` is what it should be: the compiler holds the names of fields to it, not their values. */
type Fields<Wire> = Readonly<Record<string, unknown>> & { readonly [SHAPE]?: Wire };
type Unchecked = Fields<never>;
/** Names of the fields of `Wire`, or of one of several, that hold a `Value` or null. */
type Keys<Wire, Value> = Wire extends unknown
  ? { [K in keyof Wire & string]-?: NonNullable<Wire[K]> extends Value ? K : never }[keyof Wire & string]
  : never;
/** What such a field holds. */
type At<Wire, K> = Wire extends unknown ? (K extends keyof Wire ? NonNullable<Wire[K]> : never) : never;
type Readers = {
  readonly [T in ServerEvent["type"]]: (
    fields: Fields<Extract<wire.ServerEvent, { type: T }>>,
  ) => Extract<ServerEvent, { type: T }>;
};

/** A field is absent or of another type than the wire says. */
class FieldError extends Error {}

const READERS: Readers = {
  "session.created": (f) => ({ type: "session.created", ...recorded(f) }),
  "session.updated": (f) => ({ type: "session.updated", ...recorded(f) }),
  "duplex.session.resumed": () => ({ type: "duplex.session.resumed" }),
  "duplex.session.token": (f) => ({
    type: "duplex.session.token",
    token: text(f, "token"),
    windowMs: amount(f, "window_s") * 1000,
  }),
  "duplex.session.ending": (f) => ({ type: "duplex.session.ending", leftMs: amount(f, "seconds_left") * 1000 }),
  "duplex.turn.limited": (f) => ({
    type: "duplex.turn.limited",
    itemId: text(f, "item_id"),
    audioMs: amount(f, "audio_ms"),
  }),
  "duplex.context.trimmed": (f) => ({ type: "duplex.context.trimmed", firstItemId: text(f, "first_item_id") }),
  error: (fields) => {
    const error = group(fields, "error");
    return {
      type: "error",
      code: textOr(error, "code", ""),
      message: textOr(error, "message", "The server reported an error."),
      clientEventId: textOr(error, "event_id", null),
    };
  },
  "input_audio_buffer.speech_started": (f) => ({
    type: "input_audio_buffer.speech_started",
    itemId: text(f, "item_id"),
  }),
  "input_audio_buffer.speech_stopped": (f) => ({
    type: "input_audio_buffer.speech_stopped",
    itemId: text(f, "item_id"),
  }),
  "input_audio_buffer.committed": (f) => ({ type: "input_audio_buffer.committed", itemId: text(f, "item_id") }),
  "input_audio_buffer.cleared": () => ({ type: "input_audio_buffer.cleared" }),
  "conversation.item.added": (f) => ({ type: "conversation.item.added", item: item(f) }),
  "conversation.item.done": (f) => ({ type: "conversation.item.done", item: item(f) }),
  "conversation.item.retrieved": (f) => ({ type: "conversation.item.retrieved", item: item(f) }),
  "conversation.item.deleted": (f) => ({ type: "conversation.item.deleted", itemId: text(f, "item_id") }),
  "conversation.item.truncated": (f) => ({
    type: "conversation.item.truncated",
    itemId: text(f, "item_id"),
    audioEndMs: amount(f, "audio_end_ms"),
  }),
  "conversation.item.input_audio_transcription.delta": (f) => ({
    type: "conversation.item.input_audio_transcription.delta",
    itemId: text(f, "item_id"),
    delta: textOr(f, "delta", ""),
  }),
  "conversation.item.input_audio_transcription.completed": (f) => ({
    type: "conversation.item.input_audio_transcription.completed",
    itemId: text(f, "item_id"),
    transcript: text(f, "transcript"),
  }),
  "conversation.item.input_audio_transcription.failed": (f) => ({
    type: "conversation.item.input_audio_transcription.failed",
    itemId: text(f, "item_id"),
  }),
  "response.created": (f) => {
    const response = group(f, "response");
    return {
      type: "response.created",
      responseId: text(response, "id"),
      ...(response["conversation_id"] === null ? { beside: true } : {}),
    };
  },
  "response.output_item.added": (f) => ({
    type: "response.output_item.added",
    responseId: text(f, "response_id"),
    item: item(f),
  }),
  "response.output_audio_transcript.delta": (f) => ({
    type: "response.output_audio_transcript.delta",
    ...replyDelta(f),
  }),
  "response.output_text.delta": (f) => ({ type: "response.output_text.delta", ...replyDelta(f) }),
  "response.done": (f) => {
    const response = group(f, "response");
    const details = groupOr(response, "status_details");
    const error = groupOr(details, "error");
    return {
      type: "response.done",
      responseId: text(response, "id"),
      status: oneOf(response, "status", ["in_progress", "completed", "cancelled", "failed", "incomplete"]),
      reason: textOr(details, "reason", textOr(error, "message", "")),
    };
  },
  "output_audio_buffer.started": (f) => ({
    type: "output_audio_buffer.started",
    responseId: text(f, "response_id"),
    ...(isFields(f["duplex"]) ? { rtpStart: amount(group(f, "duplex"), "rtp_timestamp") } : {}),
  }),
  "output_audio_buffer.stopped": (f) => ({
    type: "output_audio_buffer.stopped",
    responseId: text(f, "response_id"),
  }),
  "output_audio_buffer.cleared": (f) => ({
    type: "output_audio_buffer.cleared",
    responseId: text(f, "response_id"),
  }),
  "duplex.metrics": (f) => ({
    type: "duplex.metrics",
    responseId: text(f, "response_id"),
    split: latencySplit(group(f, "split")),
  }),
};

function isUsed(type: string): type is ServerEvent["type"] {
  return Object.hasOwn(READERS, type);
}

function isFields(value: unknown): value is Unchecked {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function text<Wire>(fields: Fields<Wire>, key: Keys<Wire, string>): string {
  const value = fields[key];
  if (typeof value !== "string") throw new FieldError(`${key} is not text`);
  return value;
}

function textOr<Wire, Otherwise>(
  fields: Fields<Wire>,
  key: Keys<Wire, string>,
  otherwise: Otherwise,
): string | Otherwise {
  const value = fields[key];
  return typeof value === "string" ? value : otherwise;
}

function amount<Wire>(fields: Fields<Wire>, key: Keys<Wire, number>): number {
  const value = fields[key];
  if (typeof value !== "number" || !Number.isFinite(value)) throw new FieldError(`${key} is not a number`);
  return value;
}

function isTrue<Wire>(fields: Fields<Wire>, key: Keys<Wire, boolean>): boolean {
  return fields[key] === true;
}

function group<Wire, K extends Keys<Wire, object>>(fields: Fields<Wire>, key: K): Fields<At<Wire, K>> {
  const value = fields[key];
  if (!isFields(value)) throw new FieldError(`${key} is not an object`);
  return value;
}

/** The object that a field holds, or an empty one. */
function groupOr<Wire, K extends Keys<Wire, object>>(fields: Fields<Wire>, key: K): Fields<At<Wire, K>> {
  const value = fields[key];
  return isFields(value) ? value : {};
}

/** The objects in a list; what is no object is left out, and so is what is no list. */
function groups<Wire, K extends Keys<Wire, readonly object[]>>(
  fields: Fields<Wire>,
  key: K,
): readonly Fields<At<At<Wire, K>, number>>[] {
  const value = fields[key];
  return Array.isArray(value) ? value.filter(isFields) : [];
}

function oneOf<Wire, K extends Keys<Wire, string>>(
  fields: Fields<Wire>,
  key: K,
  allowed: readonly At<Wire, K>[],
): At<Wire, K> {
  const value = fields[key];
  const found = allowed.find((each) => each === value);
  if (found === undefined) throw new FieldError(`${key} is none of ${allowed.join(", ")}`);
  return found;
}

function replyDelta(fields: Fields<wire.OutputTextDeltaEvent | wire.OutputTranscriptDeltaEvent>): ReplyDelta {
  return {
    responseId: text(fields, "response_id"),
    itemId: text(fields, "item_id"),
    delta: text(fields, "delta"),
  };
}

/** Whether the server records the conversation, as its session object says. */
function recorded(fields: Fields<wire.SessionCreatedEvent | wire.SessionUpdatedEvent>): { readonly recorded?: true } {
  return isTrue(groupOr(groupOr(fields, "session"), "duplex"), "recorded") ? { recorded: true } : {};
}

function item(
  fields: Fields<{ readonly item: wire.ConversationItem; readonly duplex?: wire.ItemAddedEvent["duplex"] }>,
): Item {
  const from = group(fields, "item");
  const mark = groupOr(fields, "duplex");
  const parts = groups(from, "content");
  const role = textOr(from, "role", "");
  return {
    id: text(from, "id"),
    ...(isTrue(mark, "restored") ? { restored: true } : {}),
    ...(isTrue(mark, "cut") ? { cut: true } : {}),
    ...(textOr(from, "status", "") === "incomplete" ? { incomplete: true } : {}),
    role: role === "user" || role === "assistant" || role === "system" ? role : null,
    text: parts.map((part) => textOr(part, "transcript", textOr(part, "text", ""))).join(""),
    spoken: parts.some((part) => textOr(part, "type", "").includes("audio")),
  };
}

function latencySplit(fields: Fields<LatencySplit>): LatencySplit {
  const known = [...SPLIT_PARTS, "ttfas"] as const;
  return Object.fromEntries(
    known.flatMap((key) => {
      const value = fields[key];
      return typeof value === "number" && Number.isFinite(value) ? [[key, value]] : [];
    }),
  );
}
