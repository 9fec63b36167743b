/**
 * The one transition function of the view state, `reduce(state, happening)`. Pure: time comes in with each happening,
 * and what has to be sent to the server is decided elsewhere (conversation.ts).
 *
 *     idle → connecting → listening ⇄ thinking → speaking → listening
 *                             ↑                     │ cut
 *                             └──── interrupted ←───┘         any → idle (ended, failed, lost)
 *
 *     any → reconnecting → listening (the same conversation)
 */
import { joined, learnRate } from "./heard.ts";
import type { Problem } from "./problem.ts";
import type { Item, ServerEvent } from "./protocol.ts";
import {
  type AwaitedTurn,
  type Caption,
  type Happening,
  INITIAL,
  type LocalEvent,
  type Phase,
  type ReplyCaption,
  type Timing,
  type UserCaption,
  type ViewState,
} from "./state.ts";

/** A sound onset up to this long before its `output_audio_buffer.started` belongs to that reply: the two race. */
const ONSET_EARLY_MS = 400;

/** The state after one happening. */
export function reduce(state: ViewState, { at, event }: Happening): ViewState {
  return event.type.startsWith("local.")
    ? reduceLocal(state, at, event as LocalEvent)
    : reduceServer(state, at, event as ServerEvent);
}

function reduceLocal(state: ViewState, at: number, event: LocalEvent): ViewState {
  switch (event.type) {
    case "local.connecting":
      return begun(state);
    case "local.reconnecting":
      return reconnecting(state, at);
    case "local.ended":
      return stopped(state, at);
    case "local.problem":
      return { ...(endsConversation(event.problem) ? stopped(state, at) : state), problem: event.problem };
    case "local.dismissed":
      return { ...state, problem: null };
    case "local.microphone":
      return { ...state, microphone: event.microphone };
    case "local.camera":
      return { ...state, camera: event.camera };
    case "local.said": {
      const caption: UserCaption = { kind: "user", id: event.itemId, text: event.text, by: "text", progress: "final" };
      return awaitingReply({ ...state, captions: [...state.captions, caption] }, {
        itemId: event.itemId,
        by: "text",
        turnAt: at,
      });
    }
    case "local.retried":
      return awaitingReply(state, { itemId: null, by: "text", turnAt: at });
    case "local.sound":
      return soundChanged(state, at, event.on);
    case "local.rtt":
      return { ...state, rttMs: event.rttMs };
    case "local.settled":
      return state.phase === "interrupted" ? { ...state, phase: awaits(state) ? "thinking" : "listening" } : state;
  }
}

function reduceServer(state: ViewState, at: number, event: ServerEvent): ViewState {
  const beside = besideConversation(state, event);
  if (beside !== null) return beside;
  switch (event.type) {
    case "session.created":
      return { ...greeted(state), recorded: event.recorded === true };
    case "session.updated":
      return { ...state, recorded: event.recorded === true };
    case "duplex.session.resumed":
      // All that was missed has come before; where the conversation was restored, session.created has.
      return state.resuming ? greeted(state) : state;
    case "duplex.session.token":
      return state;
    case "error":
      return { ...state, problem: { kind: "server", message: event.message } };
    case "input_audio_buffer.speech_started":
      return speechStarted(state, event.itemId);
    case "input_audio_buffer.speech_stopped":
      return { ...withUser(state, event.itemId, { progress: "waiting" }), userSpeaking: false, phase: afterSpeech(state) };
    case "input_audio_buffer.committed":
      return committed(state, at, event.itemId);
    case "input_audio_buffer.cleared":
      return atRest({ ...withoutUnfinished(state, null), userSpeaking: false });
    case "conversation.item.added":
    case "conversation.item.done":
      if (event.item.restored === true && event.item.role === "assistant") return restoredReply(state, event.item);
      return event.item.role === "user" ? userItem(state, event.item) : state;
    case "conversation.item.input_audio_transcription.delta":
      return withUser(state, event.itemId, (was) => ({ text: was.text + event.delta }));
    case "conversation.item.input_audio_transcription.completed":
      return transcribed(state, event.itemId, event.transcript.trim());
    case "conversation.item.input_audio_transcription.failed":
      return unanswered(withUser(state, event.itemId, { progress: "failed" }), event.itemId);
    case "conversation.item.retrieved":
      return withReply(state, (reply) => reply.id === event.item.id && reply.playout === "cut", {
        heardText: event.item.text,
      });
    case "conversation.item.deleted":
      return { ...state, captions: state.captions.filter((caption) => caption.id !== event.itemId) };
    case "conversation.item.truncated":
      return withReply(state, (reply) => reply.id === event.itemId, (reply) => cut(reply, at));
    case "response.created":
      return responseCreated(state, event.responseId);
    case "response.output_item.added":
      return event.item.role === "assistant" ? replyItem(state, event.responseId, event.item.id) : state;
    case "response.output_audio_transcript.delta":
      return replyDelta(state, at, event, "audio");
    case "response.output_text.delta":
      return replyDelta(state, at, event, "text");
    case "response.done":
      return responseDone(state, at, event);
    case "output_audio_buffer.started":
      return playoutStarted(state, at, event.responseId);
    case "output_audio_buffer.stopped":
      return playoutStopped(state, at, event.responseId);
    case "output_audio_buffer.cleared":
      return playoutCut(state, at, event.responseId);
    case "duplex.metrics":
      return withTiming(state, event.responseId, { split: event.split });
    case "duplex.session.ending":
      return ending(state, at + event.leftMs);
    case "duplex.turn.limited":
      return withUser(state, event.itemId, { limitedMs: event.audioMs });
    case "duplex.context.trimmed":
      return forgotten(state, event.firstItemId);
  }
}

// The conversation's life. ------------------------------------------------------------------------------------------

function begun(state: ViewState): ViewState {
  return {
    ...INITIAL,
    captions: state.captions,
    rate: state.rate,
    conversations: state.conversations,
    phase: "connecting",
  };
}

/** The server is there. It remembers nothing of earlier conversations, unless we have come back: a line under what they left. */
function greeted(state: ViewState): ViewState {
  if (state.resuming) return { ...state, resuming: false, phase: "listening", problem: null };
  const conversations = state.conversations + 1;
  const captions: readonly Caption[] =
    state.captions.length === 0 || state.captions.at(-1)?.kind === "break" ? state.captions : [...state.captions, { kind: "break", id: `break-${conversations}` }];
  return { ...state, captions, conversations, phase: "listening", problem: null };
}

/** It is still the same conversation: what was said of it holds. */
function reconnecting(state: ViewState, at: number): ViewState {
  const { microphone, recorded, endsAt } = state;
  return { ...stopped(state, at), microphone, recorded, endsAt, phase: "reconnecting", resuming: true, problem: null };
}

/** The warning hides no other problem: the time left is shown beside it. */
function ending(state: ViewState, endsAt: number): ViewState {
  return { ...state, endsAt, problem: state.problem ?? { kind: "ending", endsAt } };
}

/** One line in the captions of a conversation, which moves down as the model is given less of them. */
function forgotten(state: ViewState, firstItemId: string): ViewState {
  const id = `forgotten-${state.conversations}`;
  const captions = state.captions.filter((caption) => caption.id !== id);
  const first = captions.findIndex((caption) => caption.id === firstItemId);
  if (first < 0) return state;
  return { ...state, captions: captions.toSpliced(first, 0, { kind: "forgotten", id }) };
}

/** Whatever was playing is cut, where its sound ended: a lost connection is noticed seconds later. The captions stay. */
function stopped(state: ViewState, at: number): ViewState {
  const cutAt = state.sound?.until ?? at;
  const captions = withoutUnfinished(state, null).captions.map((caption) =>
    caption.kind === "reply" ? ended(caption, cutAt) : caption,
  );
  return {
    ...state,
    captions: captions.filter((caption) => caption.kind !== "reply" || caption.pieces.length > 0),
    phase: "idle",
    userSpeaking: false,
    microphone: "off",
    camera: "off",
    makingId: null,
    playingId: null,
    timings: {},
    turn: null,
    sound: null,
    resuming: false,
    recorded: false,
    endsAt: null,
    problem: state.problem?.kind === "ending" ? null : state.problem,
  };
}

function endsConversation(problem: Problem): boolean {
  return !["server", "microphone", "camera", "playback", "ending"].includes(problem.kind);
}

// The user's side. --------------------------------------------------------------------------------------------------

function speechStarted(state: ViewState, itemId: string): ViewState {
  const cleaned = withoutUnfinished(state, itemId);
  const known = cleaned.captions.some((caption) => caption.id === itemId);
  const caption: UserCaption = { kind: "user", id: itemId, text: "", by: "voice", progress: "speaking" };
  return {
    ...cleaned,
    captions: known ? cleaned.captions : [...cleaned.captions, caption],
    userSpeaking: true,
    phase: state.phase === "interrupted" ? "interrupted" : "listening",
  };
}

function afterSpeech(state: ViewState): Phase {
  if (state.playingId === null) return "thinking";
  return state.phase === "interrupted" ? "interrupted" : "speaking";
}

function committed(state: ViewState, at: number, itemId: string): ViewState {
  const known = state.captions.some((caption) => caption.id === itemId);
  const caption: UserCaption = { kind: "user", id: itemId, text: "", by: "voice", progress: "waiting" };
  const placed = known
    ? withUser(state, itemId, (was) => (was.progress === "speaking" ? { progress: "waiting" } : {}))
    : { ...state, captions: [...state.captions, caption] };
  const heard: ViewState = { ...placed, userSpeaking: false };
  // A reply that was created while the user spoke has waited for these words: it answers them too, and no other follows.
  return state.makingId !== null && state.timings[state.makingId] !== undefined
    ? { ...withTiming(heard, state.makingId, { by: "voice", turnAt: at }), phase: afterSpeech(heard) }
    : awaitingReply(heard, { itemId, by: "voice", turnAt: at });
}

function awaitingReply(state: ViewState, turn: AwaitedTurn): ViewState {
  return { ...state, turn, phase: afterSpeech(state) };
}

/** The server answers no turn without words: if the reply was awaited for this one, none is. */
function unanswered(state: ViewState, itemId: string): ViewState {
  return state.turn?.itemId === itemId ? atRest({ ...state, turn: null }) : state;
}

/** Thinking is over where no reply is to come. */
function atRest(state: ViewState): ViewState {
  return state.phase === "thinking" && !awaits(state) ? { ...state, phase: "listening" } : state;
}

/** An item of the user's as the server holds it; text that we typed is already shown under the same id. */
function userItem(state: ViewState, item: Item): ViewState {
  if (state.captions.some((caption) => caption.id === item.id)) {
    return item.text === "" ? state : withUser(state, item.id, { text: item.text, progress: "final" });
  }
  const caption: UserCaption = {
    kind: "user",
    id: item.id,
    text: item.text,
    by: item.spoken ? "voice" : "text",
    progress: item.text === "" ? "waiting" : "final",
  };
  return { ...state, captions: [...state.captions, caption] };
}

function transcribed(state: ViewState, itemId: string, transcript: string): ViewState {
  if (transcript === "") {
    return unanswered({ ...state, captions: state.captions.filter((caption) => caption.id !== itemId) }, itemId);
  }
  return withUser(state, itemId, { text: transcript, progress: "final" });
}

/** Whether a reply is still to come. */
function awaits(state: ViewState): boolean {
  return state.turn !== null || state.makingId !== null;
}

/** Drop utterances that were begun and never committed (taken back as noise), except the one named. */
function withoutUnfinished(state: ViewState, exceptId: string | null): ViewState {
  const captions = state.captions.filter(
    (caption) => caption.kind !== "user" || caption.progress !== "speaking" || caption.id === exceptId,
  );
  return captions.length === state.captions.length ? state : { ...state, captions };
}

// The assistant's side. ---------------------------------------------------------------------------------------------

/** What an event of a response beside the conversation changes: it is remembered until its end; null: it is of no such one. */
function besideConversation(state: ViewState, event: ServerEvent): ViewState | null {
  if (!("responseId" in event)) return null;
  const { responseId } = event;
  if (event.type === "response.created" && event.beside === true) {
    return { ...state, besideIds: [...state.besideIds, responseId] };
  }
  if (!state.besideIds.includes(responseId)) return null;
  return event.type === "response.done" ? { ...state, besideIds: state.besideIds.filter((id) => id !== responseId) } : state;
}

function responseCreated(state: ViewState, responseId: string): ViewState {
  const timing: Timing = {
    by: state.turn?.by ?? "voice",
    turnAt: state.turn?.turnAt ?? null,
    rttMs: state.rttMs,
    audibleAt: null,
    split: null,
  };
  return {
    ...state,
    makingId: responseId,
    timings: { ...state.timings, [responseId]: timing },
    turn: null,
    phase: state.phase === "listening" && !state.userSpeaking ? "thinking" : state.phase,
  };
}

function replyItem(state: ViewState, responseId: string, itemId: string): ViewState {
  if (state.captions.some((caption) => caption.id === itemId)) return state;
  const { [responseId]: timing, ...timings } = state.timings;
  const reply: ReplyCaption = {
    kind: "reply",
    id: itemId,
    responseId,
    pieces: [],
    modality: "audio",
    status: "in_progress",
    playout: "queued",
    soundFrom: null,
    cutAt: null,
    heardText: null,
    reason: "",
    timing: timing ?? { by: "voice", turnAt: null, rttMs: state.rttMs, audibleAt: null, split: null },
  };
  return { ...state, captions: [...state.captions, reply], timings };
}

/** A reply as the server holds it: of one that was cut by the loss, the server alone knows what was heard. */
function restoredReply(state: ViewState, item: Item): ViewState {
  if (state.captions.some((caption) => caption.id === item.id)) {
    return withReply(state, (reply) => reply.id === item.id && reply.playout === "cut", { heardText: item.text });
  }
  if (item.text === "") return state;
  return withReply(replyItem(state, item.id, item.id), (reply) => reply.id === item.id, {
    pieces: [{ text: item.text, at: 0 }],
    modality: item.spoken ? "audio" : "text",
    status: item.incomplete === true ? "incomplete" : "completed",
    playout: item.cut === true ? "cut" : "drained",
    heardText: item.cut === true ? item.text : null,
  });
}

function replyDelta(
  state: ViewState,
  at: number,
  event: { readonly responseId: string; readonly itemId: string; readonly delta: string },
  modality: "audio" | "text",
): ViewState {
  const placed = replyItem(state, event.responseId, event.itemId);
  return withReply(placed, (reply) => reply.id === event.itemId, (reply) => ({
    modality,
    pieces: [...reply.pieces, { text: event.delta, at }],
  }));
}

function responseDone(
  state: ViewState,
  at: number,
  event: Extract<ServerEvent, { type: "response.done" }>,
): ViewState {
  const { [event.responseId]: _, ...timings } = state.timings;
  const made = { ...state, makingId: state.makingId === event.responseId ? null : state.makingId, timings };
  const marked = withReply(made, (reply) => reply.responseId === event.responseId, {
    status: event.status,
    reason: event.reason,
  });
  if (event.status === "cancelled") return playoutCut(marked, at, event.responseId);
  const reply = replyOf(marked, event.responseId);
  const soundless = reply === undefined || reply.modality === "text" || event.status === "failed";
  return soundless ? atRest(marked) : marked;
}

function playoutStarted(state: ViewState, at: number, responseId: string): ViewState {
  const onset = state.sound?.until === null && at - state.sound.from <= ONSET_EARLY_MS ? state.sound.from : null;
  const playing = withReply(
    { ...state, playingId: responseId, phase: state.userSpeaking ? state.phase : "speaking" },
    (reply) => reply.responseId === responseId,
    { playout: "playing", soundFrom: onset ?? at },
  );
  return onset === null ? playing : withTiming(playing, responseId, { audibleAt: onset });
}

function playoutStopped(state: ViewState, at: number, responseId: string): ViewState {
  const reply = replyOf(state, responseId);
  const rate =
    reply?.soundFrom == null ? state.rate : learnRate(state.rate, joined(reply.pieces).length, at - reply.soundFrom);
  const drained = withReply(state, (each) => each.responseId === responseId && each.playout !== "cut", {
    playout: "drained",
  });
  const next = drained.makingId === responseId ? { ...drained, makingId: null } : drained;
  return {
    ...drained,
    rate,
    playingId: state.playingId === responseId ? null : state.playingId,
    phase: state.phase === "speaking" ? (awaits(next) ? "thinking" : "listening") : state.phase,
  };
}

function playoutCut(state: ViewState, at: number, responseId: string): ViewState {
  const active = state.playingId === responseId || state.makingId === responseId;
  const marked = withReply(state, (reply) => reply.responseId === responseId, (reply) => cut(reply, at));
  return {
    ...marked,
    // A reply that was cut before its first word leaves nothing to show.
    captions: marked.captions.filter(
      (caption) => caption.kind !== "reply" || caption.responseId !== responseId || caption.pieces.length > 0,
    ),
    playingId: state.playingId === responseId ? null : state.playingId,
    makingId: state.makingId === responseId ? null : state.makingId,
    phase: active && state.phase !== "idle" ? "interrupted" : state.phase,
  };
}

function ended(reply: ReplyCaption, at: number): ReplyCaption {
  return reply.status === "in_progress" ? { ...cut(reply, at), status: "cancelled" } : cut(reply, at);
}

function cut(reply: ReplyCaption, at: number): ReplyCaption {
  return reply.playout === "cut" || reply.playout === "drained" ? reply : { ...reply, playout: "cut", cutAt: at };
}

function soundChanged(state: ViewState, at: number, on: boolean): ViewState {
  const heard: ViewState = { ...state, sound: on ? { from: at, until: null } : { from: state.sound?.from ?? at, until: at } };
  const playing = state.playingId === null ? undefined : replyOf(state, state.playingId);
  if (!on || playing === undefined || playing.timing.audibleAt !== null) return heard;
  const sounding = withReply(heard, (reply) => reply === playing, { soundFrom: at });
  return withTiming(sounding, playing.responseId, { audibleAt: at });
}

// Small updates. ----------------------------------------------------------------------------------------------------

type Change<T> = Partial<T> | ((was: T) => Partial<T>);

function changed<T>(was: T, change: Change<T>): T {
  return { ...was, ...(typeof change === "function" ? change(was) : change) };
}

function withUser(state: ViewState, id: string, change: Change<UserCaption>): ViewState {
  return {
    ...state,
    captions: state.captions.map((caption) =>
      caption.kind === "user" && caption.id === id ? changed(caption, change) : caption,
    ),
  };
}

function withReply(state: ViewState, which: (reply: ReplyCaption) => boolean, change: Change<ReplyCaption>): ViewState {
  return {
    ...state,
    captions: state.captions.map((caption) =>
      caption.kind === "reply" && which(caption) ? changed(caption, change) : caption,
    ),
  };
}

function withTiming(state: ViewState, responseId: string, change: Partial<Timing>): ViewState {
  const early = state.timings[responseId];
  if (early !== undefined) {
    return { ...state, timings: { ...state.timings, [responseId]: { ...early, ...change } } };
  }
  return withReply(state, (reply) => reply.responseId === responseId, (reply) => ({
    timing: { ...reply.timing, ...change },
  }));
}

function replyOf(state: ViewState, responseId: string): ReplyCaption | undefined {
  return state.captions.find(
    (caption): caption is ReplyCaption => caption.kind === "reply" && caption.responseId === responseId,
  );
}
