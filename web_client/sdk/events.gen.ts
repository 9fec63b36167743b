/**
 * The wire as it stands: every event of client and server, with the objects in them.
 *
 * Made from duplex/protocol by `python docs/protocol.py`: do not edit. The same in prose: docs/protocol.md.
 */

export type ClientEvent =
  | SessionUpdateEvent
  | Append
  | Commit
  | Clear
  | ItemCreate
  | ItemRetrieve
  | ItemDelete
  | ItemTruncate
  | ResponseCreate
  | ResponseCancel
  | OutputClear
  | DuplexPlaybackReport
  | DuplexSessionResume;

export type ServerEvent =
  | SessionCreatedEvent
  | SessionUpdatedEvent
  | ConversationCreatedEvent
  | ErrorEvent
  | RateLimitsUpdatedEvent
  | SpeechStartedEvent
  | SpeechStoppedEvent
  | InputCommittedEvent
  | InputClearedEvent
  | TimeoutTriggeredEvent
  | ItemAddedEvent
  | ItemDoneEvent
  | ItemRetrievedEvent
  | ItemDeletedEvent
  | ItemTruncatedEvent
  | TranscriptionDeltaEvent
  | TranscriptionCompletedEvent
  | TranscriptionFailedEvent
  | ResponseCreatedEvent
  | OutputItemAddedEvent
  | ContentPartAddedEvent
  | OutputTextDeltaEvent
  | OutputTextDoneEvent
  | OutputAudioDeltaEvent
  | OutputAudioDoneEvent
  | OutputTranscriptDeltaEvent
  | OutputTranscriptDoneEvent
  | CallArgumentsDeltaEvent
  | CallArgumentsDoneEvent
  | ContentPartDoneEvent
  | OutputItemDoneEvent
  | ResponseDoneEvent
  | OutputStartedEvent
  | OutputStoppedEvent
  | OutputClearedEvent
  | DuplexTokenEvent
  | DuplexResumedEvent
  | DuplexEndingEvent
  | DuplexTurnLimitedEvent
  | DuplexContextTrimmedEvent
  | DuplexMetricsEvent;

/** G.711 A-law, 8 kHz, mono. */
export interface ALawFormat {
  readonly type: "audio/pcma";
}

/** More of the user's sound. It is not answered. Only on WebSocket. */
export interface Append {
  /** Chosen by the client; an `error` that the event causes names it. */
  readonly event_id?: string | null;
  readonly type: "input_audio_buffer.append";
  /** Base64, in the format of `audio.input`, up to 15 MiB; whole samples. */
  readonly audio: string;
}

/** What the model said or wrote. */
export interface AssistantMessage {
  /** Chosen by the client, or given. */
  readonly id: string;
  readonly object: "realtime.item";
  readonly status: "in_progress" | "completed" | "incomplete";
  readonly type: "message";
  readonly role: "assistant";
  /** Empty while it begins. */
  readonly content: readonly (OutputText | OutputAudio)[];
}

/** `audio/pcm` (16 bits, little endian), `audio/pcmu` or `audio/pcma` (G.711); mono. */
export interface AudioFormat {
  readonly type?: "audio/pcm" | "audio/pcmu" | "audio/pcma";
  /** 24000 of `audio/pcm`, 8000 of the others. */
  readonly rate?: 8000 | 24000 | null;
}

/** How the session is to listen. */
export interface AudioInputUpdate {
  /** Of appended audio. */
  readonly format?: AudioFormat | null;
  /** Null: none. Has an effect where the server processes audio. */
  readonly noise_reduction?: NoiseReduction | null;
  /** Null: the user's words are not told. */
  readonly transcription?: Transcription | null;
  /** Null: the client commits turns (push to talk). */
  readonly turn_detection?: TurnDetectionUpdate | null;
}

/** How the session is to sound. */
export interface AudioOutputUpdate {
  /** Of audio deltas. */
  readonly format?: AudioFormat | null;
  /** One of the model pack's. Fixed after the first audio. */
  readonly voice?: string | VoiceId | null;
  /** 1: as the voice speaks by itself. */
  readonly speed?: number | null;
}

/** Speech in a response: `output_audio` inside the item, `audio` as a part. */
export interface AudioPart {
  readonly type: "audio";
  /** Its words. */
  readonly transcript: string;
}

/** Both directions. */
export interface AudioUpdate {
  readonly input?: AudioInputUpdate | null;
  readonly output?: AudioOutputUpdate | null;
}

/** Input tokens that had been read before. */
export interface CachedTokens {
  /** Of text. */
  readonly text_tokens: number;
  /** Of sound. */
  readonly audio_tokens: number;
  /** Of images. */
  readonly image_tokens: number;
}

/** More of a call's arguments. */
export interface CallArgumentsDeltaEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  /** The response's id. */
  readonly response_id: string;
  /** Of the item in the response's output. */
  readonly output_index: number;
  /** The item's id. */
  readonly item_id: string;
  /** The function call's id. */
  readonly call_id: string;
  readonly type: "response.function_call_arguments.delta";
  /** What is new; all of them, one behind the other, are the whole. */
  readonly delta: string;
}

/** All of a call's arguments. */
export interface CallArgumentsDoneEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  /** The response's id. */
  readonly response_id: string;
  /** Of the item in the response's output. */
  readonly output_index: number;
  /** The item's id. */
  readonly item_id: string;
  /** The function call's id. */
  readonly call_id: string;
  readonly type: "response.function_call_arguments.done";
  /** Of the function. */
  readonly name: string;
  /** JSON. */
  readonly arguments: string;
}

/** Why a response was cancelled. */
export interface CancelledDetails {
  readonly type: "cancelled";
  /** The user spoke; or the client said so, or left. */
  readonly reason: "turn_detected" | "client_cancelled" | null;
}

/** The one function that the model has to call. */
export interface ChosenFunction {
  readonly type: "function";
  /** One of the session's tools. */
  readonly name: string;
}

/** Forget the audio so far. */
export interface Clear {
  /** Chosen by the client; an `error` that the event causes names it. */
  readonly event_id?: string | null;
  readonly type: "input_audio_buffer.clear";
}

/** The audio so far is a turn. Asks for no response by itself. */
export interface Commit {
  /** Chosen by the client; an `error` that the event causes names it. */
  readonly event_id?: string | null;
  readonly type: "input_audio_buffer.commit";
}

/** A part of an item's content. */
export interface ContentPart {
  /** Of a user: `input_text`, `input_audio`, `input_image`; of the system: `input_text`; of the assistant: `output_text`, `output_audio`. */
  readonly type: string;
  /** Of `input_text` and `output_text`. */
  readonly text?: string | null;
  /** Of `input_audio` and `output_audio`. */
  readonly transcript?: string | null;
  /** Base64, of `input_audio`, in the session's input format: transcribed, and not kept. */
  readonly audio?: string | null;
  /** Of `input_image`: a data URL of PNG, JPEG or WebP; nothing is fetched from an address. */
  readonly image_url?: string | null;
  /** Has no effect: an image is read in the size that the reader takes. */
  readonly detail?: string | null;
}

/** A content part has begun, empty. */
export interface ContentPartAddedEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  /** The response's id. */
  readonly response_id: string;
  /** Of the item in the response's output. */
  readonly output_index: number;
  /** The item's id. */
  readonly item_id: string;
  /** Place of the part in the item's content, from 0. */
  readonly content_index: number;
  readonly type: "response.content_part.added";
  readonly part: ShownPart;
}

/** A content part as it was made: its text is what the deltas add up to, heard or not. */
export interface ContentPartDoneEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  /** The response's id. */
  readonly response_id: string;
  /** Of the item in the response's output. */
  readonly output_index: number;
  /** The item's id. */
  readonly item_id: string;
  /** Place of the part in the item's content, from 0. */
  readonly content_index: number;
  readonly type: "response.content_part.done";
  readonly part: ShownPart;
}

/** Follows `session.created`. */
export interface ConversationCreatedEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  readonly type: "conversation.created";
  readonly conversation: ShownConversation;
}

/** An item of the conversation, or of a response's output. */
export type ConversationItem =
  | UserMessage
  | SystemMessage
  | AssistantMessage
  | FunctionCall
  | FunctionCallOutput;

/** The model is given less of the conversation from now on; all of it can be retrieved. */
export interface DuplexContextTrimmedEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  readonly type: "duplex.context.trimmed";
  /** Of the oldest item that it still gets. */
  readonly first_item_id: string;
  /** Left out with this step. */
  readonly items: number;
}

/** The session will have its greatest length soon (sessions.md). */
export interface DuplexEndingEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  readonly type: "duplex.session.ending";
  readonly reason: "max_length";
  /** Until it ends. */
  readonly seconds_left: number;
}

/** Where the time of a spoken turn's answer went. */
export interface DuplexMetricsEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  readonly type: "duplex.metrics";
  /** The response's id. */
  readonly response_id: string;
  /** A part that did not occur is left out. */
  readonly split: LatencySplit;
}

/** What the client has played of a reply, measured at its own output. */
export interface DuplexPlaybackReport {
  /** Chosen by the client; an `error` that the event causes names it. */
  readonly event_id?: string | null;
  readonly type: "duplex.playback.report";
  /** The response's id. */
  readonly response_id: string;
  /** From the reply's first sample. */
  readonly played_ms: number;
}

/** The client has come back to its session: it has been told what it missed, or its items follow, as they stand. */
export interface DuplexResumedEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  readonly type: "duplex.session.resumed";
  /** So many follow. */
  readonly items: number;
  /** So many missed events came before this one; null: some of them are gone, or the last event seen was not told. */
  readonly replayed: number | null;
  /** Audio that was sent, did not arrive, and is not sent again: of responses that were cut. */
  readonly audio_missed_ms: number;
}

/** Come back to a session (resume.md): the first event of a new WebSocket, or on a new data channel of the same call. */
export interface DuplexSessionResume {
  /** Chosen by the client; an `error` that the event causes names it. */
  readonly event_id?: string | null;
  readonly type: "duplex.session.resume";
  /** The newest that the session gave. */
  readonly token: string;
  /** Id of the last event that was seen: those after it are sent again. Without it the conversation is told as it stands. */
  readonly last_event_id?: string | null;
}

/** What brings the client back after a lost connection; the newest counts (resume.md). */
export interface DuplexTokenEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  readonly type: "duplex.session.token";
  /** Good for one return. */
  readonly token: string;
  /** How long the session waits. */
  readonly window_s: number;
}

/** A turn was committed because it had its greatest length; what sounds on is the next. */
export interface DuplexTurnLimitedEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  readonly type: "duplex.turn.limited";
  /** The item's id. */
  readonly item_id: string;
  /** Length of the turn. */
  readonly audio_ms: number;
}

/** Our own additions. */
export interface DuplexUpdate {
  /** How far WebSocket audio runs ahead of its playback. */
  readonly lead_ms?: number | "unlimited" | null;
  /** What becomes of a reply while it is not certain that the user interrupts. */
  readonly on_onset?: "duck" | "hold" | "none" | null;
  /** Take the server's own voice out of the user's sound. */
  readonly echo_cancellation?: boolean | null;
  /** What the model says first: `{"text": …}`, `{"instructions": …}` or `none` (sessions.md). */
  readonly greeting?: Record<string, string> | "none" | null;
  /** The session outlives a lost connection (resume.md). */
  readonly resume?: boolean | null;
  /** Send our own events that tell and ask nothing (sessions.md); left out: on WebRTC only. */
  readonly events?: boolean | null;
}

/** What is wrong. */
export interface ErrorBody {
  /** The client's mistake, or the server's. */
  readonly type: "invalid_request_error" | "server_error";
  readonly code: ErrorCode;
  /** For people; never quotes audio, text or instructions. */
  readonly message: string;
  /** Dotted path of the field, as `session.audio.output.speed`. */
  readonly param: string | null;
  /** Of the client's event, if it had one. */
  readonly event_id: string | null;
}

/** What an error is called: one of the list of error codes. */
export type ErrorCode =
  | "invalid_json"
  | "invalid_utf8"
  | "binary_event"
  | "duplicate_key"
  | "nesting_too_deep"
  | "event_too_large"
  | "invalid_type"
  | "invalid_value"
  | "missing_required_parameter"
  | "string_above_max_length"
  | "unknown_event_type"
  | "unsupported"
  | "unsupported_on_transport"
  | "forbidden_field"
  | "invalid_audio"
  | "invalid_image"
  | "session_not_resumable"
  | "image_too_large"
  | "event_not_sent"
  | "too_many_images"
  | "too_many_audio_items"
  | "image_not_read"
  | "item_not_found"
  | "item_retrieve_invalid_item_id"
  | "item_delete_invalid_item_id"
  | "item_truncate_invalid_item_id"
  | "item_create_duplicate_item_id"
  | "call_id_taken"
  | "invalid_tool_call_id"
  | "too_many_items"
  | "too_many_out_of_band_responses"
  | "invalid_truncate"
  | "conversation_already_has_active_response"
  | "response_cancel_not_active"
  | "input_audio_buffer_commit_empty"
  | "input_audio_buffer_full"
  | "cannot_update_voice"
  | "cannot_update_type"
  | "context_length_exceeded"
  | "session_expired"
  | "unsupported_in_tick_mode"
  | "stage_failed"
  | "transcription_failed";

/** What `event_not_sent` is about. */
export interface ErrorDetails {
  readonly unsent: UnsentEvent;
}

/** Something could not be done. The session goes on, and nothing of the client's event was taken. */
export interface ErrorEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  readonly type: "error";
  readonly error: ErrorBody;
  /** Left out unless an event of the server was not sent. */
  readonly duplex?: ErrorDetails;
}

/** Why a response failed. */
export interface FailedDetails {
  readonly type: "failed";
  readonly error: ResponseError;
}

/** The model wants a function called. */
export interface FunctionCall {
  /** Chosen by the client, or given. */
  readonly id: string;
  readonly object: "realtime.item";
  readonly status: "in_progress" | "completed" | "incomplete";
  readonly type: "function_call";
  /** Names the call in its output. */
  readonly call_id: string;
  /** One of the session's tools. */
  readonly name: string;
  /** JSON. Empty while it begins. */
  readonly arguments: string;
}

/** What came of a call, from the client. */
export interface FunctionCallOutput {
  /** Chosen by the client, or given. */
  readonly id: string;
  readonly object: "realtime.item";
  readonly status: "in_progress" | "completed" | "incomplete";
  readonly type: "function_call_output";
  /** The function call's id. */
  readonly call_id: string;
  /** As the client gave it. */
  readonly output: string;
}

/** A function that the model may call. */
export interface FunctionTool {
  readonly type: "function";
  /** What calls name. */
  readonly name: string;
  /** When to call it. */
  readonly description?: string | null;
  /** JSON schema of the arguments. */
  readonly parameters?: Record<string, unknown> | null;
}

/** What the model is told to greet with. */
export interface GreetingInstructions {
  /** As the client or the operator gave them. */
  readonly instructions: string;
}

/** Words that are spoken as they stand. */
export interface GreetingText {
  /** As the client or the operator gave it. */
  readonly text: string;
}

/** Why a response ended early. */
export interface IncompleteDetails {
  readonly type: "incomplete";
  readonly reason: "max_output_tokens" | "content_filter" | null;
}

/** Said by the user. The sound itself is not kept for the client. */
export interface InputAudio {
  readonly type: "input_audio";
  /** Null: it is not there yet. */
  readonly transcript: string | null;
}

/** The audio so far was dropped. */
export interface InputClearedEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  readonly type: "input_audio_buffer.cleared";
}

/** The audio so far is a turn. */
export interface InputCommittedEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  readonly type: "input_audio_buffer.committed";
  /** Null: the item is the first. */
  readonly previous_item_id: string | null;
  /** The item's id. */
  readonly item_id: string;
}

/** Shown by the user. The picture is not kept, so there is no `image_url`. */
export interface InputImage {
  readonly type: "input_image";
  readonly detail: "auto";
  readonly duplex: PictureRead;
}

/** Typed by the user, or told by the system. */
export interface InputText {
  readonly type: "input_text";
  /** As it was typed. */
  readonly text: string;
}

/** What the model was given. */
export interface InputTokens {
  /** Of text. */
  readonly text_tokens: number;
  /** Of sound. */
  readonly audio_tokens: number;
  /** Of images. */
  readonly image_tokens: number;
  /** Of all these, how many had been read before. */
  readonly cached_tokens: number;
  readonly cached_tokens_details: CachedTokens;
}

/** An item to be put into the conversation. */
export interface Item {
  /** `message`, `function_call` or `function_call_output`; in the `input` of a response also `item_reference`, with its `id`. */
  readonly type: string;
  /** Left out: the server chooses one. */
  readonly id?: string | null;
  /** Has no effect. */
  readonly object?: string | null;
  /** Has no effect: an item that is created is complete. */
  readonly status?: string | null;
  /** Of a `message`. */
  readonly role?: "user" | "assistant" | "system" | null;
  /** Of a `message`. */
  readonly content?: readonly ContentPart[] | null;
  /** Of a `function_call`, and of the output that belongs to it. */
  readonly call_id?: string | null;
  /** Of a `function_call`: the function's. */
  readonly name?: string | null;
  /** Of a `function_call`: JSON. */
  readonly arguments?: string | null;
  /** Of a `function_call_output`: what came of it. */
  readonly output?: string | null;
}

/** An item is in the conversation; one of a response has begun. */
export interface ItemAddedEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  /** Null: it is the first. */
  readonly previous_item_id: string | null;
  readonly item: ConversationItem;
  /** Left out unless the item was there before its client came back. */
  readonly duplex?: Restored;
  readonly type: "conversation.item.added";
}

/** Put an item into the conversation. */
export interface ItemCreate {
  /** Chosen by the client; an `error` that the event causes names it. */
  readonly event_id?: string | null;
  readonly type: "conversation.item.create";
  readonly item: Item;
  /** Behind this item; `root`: before all; left out: at the end. */
  readonly previous_item_id?: string | null;
}

/** Take an item out of the conversation. */
export interface ItemDelete {
  /** Chosen by the client; an `error` that the event causes names it. */
  readonly event_id?: string | null;
  readonly type: "conversation.item.delete";
  /** The item's id. */
  readonly item_id: string;
}

/** An item is no longer in the conversation. */
export interface ItemDeletedEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  readonly type: "conversation.item.deleted";
  /** The item's id. */
  readonly item_id: string;
}

/** An item is all there. */
export interface ItemDoneEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  /** Null: it is the first. */
  readonly previous_item_id: string | null;
  readonly item: ConversationItem;
  /** Left out unless the item was there before its client came back. */
  readonly duplex?: Restored;
  readonly type: "conversation.item.done";
}

/** Ask for an item as it stands. */
export interface ItemRetrieve {
  /** Chosen by the client; an `error` that the event causes names it. */
  readonly event_id?: string | null;
  readonly type: "conversation.item.retrieve";
  /** The item's id. */
  readonly item_id: string;
}

/** An item as it stands, as asked for. */
export interface ItemRetrievedEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  readonly type: "conversation.item.retrieved";
  readonly item: ConversationItem;
}

/** Cut the assistant's item, sound and transcript, to what was heard. */
export interface ItemTruncate {
  /** Chosen by the client; an `error` that the event causes names it. */
  readonly event_id?: string | null;
  readonly type: "conversation.item.truncate";
  /** The item's id. */
  readonly item_id: string;
  /** Place of the part in the item's content, from 0. */
  readonly content_index?: number;
  /** Length of what was heard, from the item's first sample. */
  readonly audio_end_ms: number;
}

/** The assistant's item was cut to what was heard, with its transcript: by the client, or on WebRTC by the server. */
export interface ItemTruncatedEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  readonly type: "conversation.item.truncated";
  /** The item's id. */
  readonly item_id: string;
  /** Place of the part in the item's content, from 0. */
  readonly content_index: number;
  /** Length of what was heard, from the item's first sample. */
  readonly audio_end_ms: number;
}

/** One turn's latency in seconds, part by part; the parts add up to `ttfas`. */
export interface LatencySplit {
  /** End of speech → the turn is committed. */
  readonly endpointing?: number;
  /** → its words. */
  readonly transcribe?: number;
  /** → the first clause. */
  readonly think?: number;
  /** → its first codec frame. */
  readonly talk?: number;
  /** → its first sound. */
  readonly vocode?: number;
  /** → sent. */
  readonly send?: number;
  /** End of speech → first sound sent. */
  readonly ttfas?: number;
}

/** G.711 µ-law, 8 kHz, mono. */
export interface MuLawFormat {
  readonly type: "audio/pcmu";
}

/** The one function that the model has to call. */
export interface NamedFunction {
  readonly type: "function";
  /** One of the tools. */
  readonly name: string;
}

/** What is to be done to the user's sound. */
export interface NoiseReduction {
  /** Near: a headset. Far: a room. */
  readonly type: "near_field" | "far_field";
  /** Has no effect. */
  readonly strength?: unknown;
}

/** Said by the model. */
export interface OutputAudio {
  readonly type: "output_audio";
  /** As far as it was heard, once the item was cut or truncated. */
  readonly transcript: string;
}

/** More sound. A WebRTC call has it on its track. Only on WebSocket. */
export interface OutputAudioDeltaEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  /** The response's id. */
  readonly response_id: string;
  /** Of the item in the response's output. */
  readonly output_index: number;
  /** The item's id. */
  readonly item_id: string;
  /** Place of the part in the item's content, from 0. */
  readonly content_index: number;
  readonly type: "response.output_audio.delta";
  /** Base64, in the format of `audio.output`. */
  readonly delta: string;
}

/** All of the sound was made. */
export interface OutputAudioDoneEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  /** The response's id. */
  readonly response_id: string;
  /** Of the item in the response's output. */
  readonly output_index: number;
  /** The item's id. */
  readonly item_id: string;
  /** Place of the part in the item's content, from 0. */
  readonly content_index: number;
  readonly type: "response.output_audio.done";
}

/** Be silent at once: what was made and did not sound yet is dropped. Only on WebRTC. */
export interface OutputClear {
  /** Chosen by the client; an `error` that the event causes names it. */
  readonly event_id?: string | null;
  readonly type: "output_audio_buffer.clear";
}

/** A response's audio was cut: the user spoke, or the client said so. Only on WebRTC. */
export interface OutputClearedEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  /** The response's id. */
  readonly response_id: string;
  readonly type: "output_audio_buffer.cleared";
}

/** An item of a response has begun. */
export interface OutputItemAddedEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  /** The response's id. */
  readonly response_id: string;
  /** Of the item in the response's output. */
  readonly output_index: number;
  readonly type: "response.output_item.added";
  readonly item: ConversationItem;
}

/** An item of a response is all there. */
export interface OutputItemDoneEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  /** The response's id. */
  readonly response_id: string;
  /** Of the item in the response's output. */
  readonly output_index: number;
  readonly type: "response.output_item.done";
  readonly item: ConversationItem;
}

/** Where a response begins in the stream of its track. */
export interface OutputStart {
  /** Of the packet with its first sample, 48 kHz, as in the packet's header. */
  readonly rtp_timestamp: number;
}

/** The first audio of a response left. Only on WebRTC. */
export interface OutputStartedEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  /** The response's id. */
  readonly response_id: string;
  readonly type: "output_audio_buffer.started";
  /** Left out where it is not known. */
  readonly duplex?: OutputStart;
}

/** All of a response's audio has been played. Comes after `response.done`. Only on WebRTC. */
export interface OutputStoppedEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  /** The response's id. */
  readonly response_id: string;
  readonly type: "output_audio_buffer.stopped";
}

/** Written by the model. */
export interface OutputText {
  readonly type: "output_text";
  /** As it was written. */
  readonly text: string;
}

/** More text. */
export interface OutputTextDeltaEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  /** The response's id. */
  readonly response_id: string;
  /** Of the item in the response's output. */
  readonly output_index: number;
  /** The item's id. */
  readonly item_id: string;
  /** Place of the part in the item's content, from 0. */
  readonly content_index: number;
  readonly type: "response.output_text.delta";
  /** What is new; all of them, one behind the other, are the whole. */
  readonly delta: string;
}

/** All of the text. */
export interface OutputTextDoneEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  /** The response's id. */
  readonly response_id: string;
  /** Of the item in the response's output. */
  readonly output_index: number;
  /** The item's id. */
  readonly item_id: string;
  /** Place of the part in the item's content, from 0. */
  readonly content_index: number;
  readonly type: "response.output_text.done";
  /** What the deltas add up to. */
  readonly text: string;
}

/** What the model made. */
export interface OutputTokens {
  /** Of text. */
  readonly text_tokens: number;
  /** Of sound. */
  readonly audio_tokens: number;
}

/** More of the words; they leave with the audio of their clause, not ahead of the ear. */
export interface OutputTranscriptDeltaEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  /** The response's id. */
  readonly response_id: string;
  /** Of the item in the response's output. */
  readonly output_index: number;
  /** The item's id. */
  readonly item_id: string;
  /** Place of the part in the item's content, from 0. */
  readonly content_index: number;
  readonly type: "response.output_audio_transcript.delta";
  /** What is new; all of them, one behind the other, are the whole. */
  readonly delta: string;
}

/** All of the words. */
export interface OutputTranscriptDoneEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  /** The response's id. */
  readonly response_id: string;
  /** Of the item in the response's output. */
  readonly output_index: number;
  /** The item's id. */
  readonly item_id: string;
  /** Place of the part in the item's content, from 0. */
  readonly content_index: number;
  readonly type: "response.output_audio_transcript.done";
  /** What the deltas add up to, heard or not. */
  readonly transcript: string;
}

/** 16 bits, little endian, mono. */
export interface PcmFormat {
  readonly type: "audio/pcm";
  /** Samples in a second. */
  readonly rate: 24000;
}

/** What there was in an image, and what was read of it. */
export interface PictureRead {
  readonly format: "png" | "jpeg" | "webp";
  /** Pixels, as sent. */
  readonly width: number;
  /** Pixels, as sent. */
  readonly height: number;
  /** As sent, decoded from base64. */
  readonly bytes: number;
  /** Not read yet; read; nothing is legible in it; it could not be read. */
  readonly state: "waiting" | "read" | "nothing" | "failed";
  /** What was read. */
  readonly text: string | null;
}

/** One quota. */
export interface RateLimit {
  readonly name: "requests" | "tokens";
  /** What there is of it. */
  readonly limit: number;
  /** What is left of it. */
  readonly remaining: number;
  /** Until all of it is there again. */
  readonly reset_seconds: number;
}

/** Quotas that are left; the list is empty where none is kept. Follows `response.created`. */
export interface RateLimitsUpdatedEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  readonly type: "rate_limits.updated";
  readonly rate_limits: readonly RateLimit[];
}

/** A response as it stands. */
export interface Response {
  /** Its id. */
  readonly id: string;
  readonly object: "realtime.response";
  readonly status: "in_progress" | "completed" | "cancelled" | "failed" | "incomplete";
  /** Null: in progress or completed. */
  readonly status_details: StatusDetails | null;
  /** Its items, as the conversation keeps them; empty until it is done. */
  readonly output: readonly ConversationItem[];
  /** Null: out of band. */
  readonly conversation_id: string | null;
  /** `["audio"]`, speech with its transcript, or `["text"]`. */
  readonly output_modalities: readonly ("audio" | "text")[];
  /** Its bound. */
  readonly max_output_tokens: number | "inf";
  readonly audio: ShownResponseAudio;
  /** Null until it is done. */
  readonly usage: Usage | null;
  /** As the client gave it. */
  readonly metadata: Record<string, string> | null;
}

/** The one direction of a response. */
export interface ResponseAudio {
  readonly output?: ResponseAudioOutput | null;
}

/** How one response sounds. */
export interface ResponseAudioOutput {
  readonly format?: AudioFormat | null;
  /** One of the model pack's; left out: the session's. */
  readonly voice?: string | VoiceId | null;
}

/** End a response; it ends with `response.done`. */
export interface ResponseCancel {
  /** Chosen by the client; an `error` that the event causes names it. */
  readonly event_id?: string | null;
  readonly type: "response.cancel";
  /** Left out: the one of the conversation that is in progress. */
  readonly response_id?: string | null;
}

/** Ask for a response. */
export interface ResponseCreate {
  /** Chosen by the client; an `error` that the event causes names it. */
  readonly event_id?: string | null;
  readonly type: "response.create";
  readonly response?: ResponseParams | null;
}

/** A response has begun. */
export interface ResponseCreatedEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  readonly type: "response.created";
  readonly response: Response;
}

/** A response has ended, in one way or another: there is no other event that says so, and never a second one. */
export interface ResponseDoneEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  readonly type: "response.done";
  readonly response: Response;
}

/** What went wrong in a response. */
export interface ResponseError {
  readonly type: "server_error";
  /** `stage_failed`, as far as nothing more is known. */
  readonly code: string;
  /** For people. */
  readonly message: string;
}

/** How a response sounds. */
export interface ResponseOutput {
  readonly format: ShownFormat;
  /** One of the model pack's. */
  readonly voice: string;
}

/** How one response differs from what the session says. */
export interface ResponseParams {
  /** `auto`, or `none`: out of band. */
  readonly conversation?: string | null;
  /** Items, and references (`item_reference`) to items of the conversation, to answer in its place; `[]`: none. */
  readonly input?: readonly Item[] | null;
  /** In place of the session's. */
  readonly instructions?: string | null;
  /** `["audio"]`, speech with its transcript, or `["text"]`. */
  readonly output_modalities?: readonly ("audio" | "text")[] | null;
  /** Its bound. */
  readonly max_output_tokens?: number | "inf" | null;
  /** Comes back in the response. */
  readonly metadata?: Record<string, string> | null;
  readonly audio?: ResponseAudio | null;
  /** In place of the session's. */
  readonly tools?: readonly FunctionTool[] | null;
  /** Whether the model may, must not or has to call a tool, or which one. */
  readonly tool_choice?: "auto" | "none" | "required" | NamedFunction | null;
  /** Several calls may come in the response. */
  readonly parallel_tool_calls?: boolean | null;
  /** Stored prompts are not supported. */
  readonly prompt?: Record<string, unknown> | null;
  /** Has no effect. */
  readonly reasoning?: unknown;
}

/** Marks an item that was there before its client came back. */
export interface Restored {
  /** It is no new item. */
  readonly restored: true;
  /** It was stopped before all of it was heard. Left out of all others. */
  readonly cut?: true;
}

/** How much of a conversation that has outgrown the context is kept. */
export interface RetentionRatio {
  readonly type: "retention_ratio";
  /** Share of the bound that is kept. */
  readonly retention_ratio: number;
  /** Left out unless the client gave them. */
  readonly token_limits?: TokenLimits;
}

/** A turn ends when it sounds ended. */
export interface SemanticVad {
  readonly type: "semantic_vad";
  /** How soon a pause is taken for an end. */
  readonly eagerness: "low" | "medium" | "high" | "auto";
  /** A turn is answered by itself. */
  readonly create_response: boolean;
  /** The user's voice cuts a reply. */
  readonly interrupt_response: boolean;
}

/** A turn ends after a silence. */
export interface ServerVad {
  readonly type: "server_vad";
  /** Probability from which on sound is a voice. */
  readonly threshold: number;
  /** Taken from before the voice began. */
  readonly prefix_padding_ms: number;
  /** That ends a turn. */
  readonly silence_duration_ms: number;
  /** After so long without a word the model speaks; null: never. */
  readonly idle_timeout_ms: number | null;
  /** A turn is answered by itself. */
  readonly create_response: boolean;
  /** The user's voice cuts a reply. */
  readonly interrupt_response: boolean;
}

/** A conversation's session: what is in effect, not what was asked for. */
export interface Session {
  readonly type: "realtime";
  readonly object: "realtime.session";
  /** Its id. */
  readonly id: string;
  /** Name of the model pack. */
  readonly model: string;
  /** `["audio"]`, speech with its transcript, or `["text"]`. */
  readonly output_modalities: readonly ("audio" | "text")[];
  /** Left out of a locked session. */
  readonly instructions?: string;
  readonly tools: readonly ShownTool[];
  readonly tool_choice: ShownToolChoice;
  /** Several calls may come in one response. */
  readonly parallel_tool_calls: boolean;
  /** Of one response. */
  readonly max_output_tokens: number | "inf";
  /** Has no effect. */
  readonly tracing: null;
  readonly truncation: Truncation;
  /** Stored prompts are not supported. */
  readonly prompt: null;
  /** Seconds since 1970; null: never. */
  readonly expires_at: number | null;
  /** Has no effect. */
  readonly include: readonly "item.input_audio_transcription.logprobs"[];
  readonly audio: ShownAudio;
  readonly duplex: ShownDuplex;
}

/** The first event of a connection. */
export interface SessionCreatedEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  readonly type: "session.created";
  readonly session: ShownSession;
}

/** What `session.update` and the `session` part of an offer carry. */
export interface SessionUpdate {
  readonly type?: "realtime" | "transcription" | null;
  /** Has no effect: the model pack's is shown. */
  readonly model?: string | null;
  /** `""` clears them. */
  readonly instructions?: string | null;
  /** `["audio"]`, speech with its transcript, or `["text"]`. */
  readonly output_modalities?: readonly ("audio" | "text")[] | null;
  /** Of one response. */
  readonly max_output_tokens?: number | "inf" | null;
  readonly audio?: AudioUpdate | null;
  /** `[]` clears them. */
  readonly tools?: readonly FunctionTool[] | null;
  /** Whether the model may, must not or has to call a tool, or which one. */
  readonly tool_choice?: "auto" | "none" | "required" | NamedFunction | null;
  /** Several calls may come in one response. */
  readonly parallel_tool_calls?: boolean | null;
  /** Stored prompts are not supported. */
  readonly prompt?: Record<string, unknown> | null;
  /** Has no effect. */
  readonly tracing?: unknown;
  /** What is done about a conversation that outgrows the context: `auto`, `disabled` or `retention_ratio` (sessions.md). */
  readonly truncation?: Record<string, unknown> | "auto" | "disabled" | null;
  /** Has no effect. */
  readonly include?: readonly unknown[] | null;
  /** Has no effect. */
  readonly reasoning?: unknown;
  readonly duplex?: DuplexUpdate | null;
}

/** Change the session: what is absent stays. Taken as a whole (`session.updated`) or not at all (`error`). */
export interface SessionUpdateEvent {
  /** Chosen by the client; an `error` that the event causes names it. */
  readonly event_id?: string | null;
  readonly type: "session.update";
  readonly session: SessionUpdate;
}

/** A `session.update` was taken as a whole. */
export interface SessionUpdatedEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  readonly type: "session.updated";
  readonly session: ShownSession;
}

/** Both directions. */
export interface ShownAudio {
  readonly input: ShownInput;
  readonly output: ShownOutput;
}

/** The one conversation of a session. */
export interface ShownConversation {
  /** Its id. */
  readonly id: string;
  readonly object: "realtime.conversation";
}

/** This server's own settings of a session. */
export interface ShownDuplex {
  /** How far WebSocket audio runs ahead of its playback. */
  readonly lead_ms: number | "unlimited";
  /** What becomes of a reply while it is not certain that the user interrupts. */
  readonly on_onset: "duck" | "hold" | "none";
  /** The server takes its own voice out of the user's sound. */
  readonly echo_cancellation: boolean;
  /** The session outlives a lost connection, see resume.md. */
  readonly resume: boolean;
  /** Our own events that tell and ask nothing are sent (sessions.md); null: on WebRTC only. */
  readonly events: boolean | null;
  /** What the model says first. */
  readonly greeting: GreetingText | GreetingInstructions | "none";
  /** Left out unless the operator keeps a record of the session. */
  readonly recorded?: true;
}

/** How audio is written in events. A WebRTC call negotiates its codec in SDP, whatever stands here. */
export type ShownFormat =
  | PcmFormat
  | MuLawFormat
  | ALawFormat;

/** How the session listens. */
export interface ShownInput {
  /** Of appended audio. */
  readonly format: ShownFormat;
  /** Null: none. */
  readonly noise_reduction: ShownNoiseReduction | null;
  /** Null: the user's words are not told. */
  readonly transcription: ShownTranscription | null;
  /** Null: the client commits turns (push to talk). */
  readonly turn_detection: TurnDetection | null;
}

/** What is done to the user's sound. */
export interface ShownNoiseReduction {
  /** Near: a headset. Far: a room. */
  readonly type: "near_field" | "far_field";
}

/** How the session sounds. */
export interface ShownOutput {
  /** Of audio deltas. */
  readonly format: ShownFormat;
  /** One of the model pack's. */
  readonly voice: string;
  /** 1: as the voice speaks by itself. */
  readonly speed: number;
}

/** A content part of a response's item, under the names that parts have. */
export type ShownPart =
  | AudioPart
  | TextPart;

/** The one direction of a response. */
export interface ShownResponseAudio {
  readonly output: ResponseOutput;
}

/** A session object as the client may see it. */
export type ShownSession =
  | Session
  | TranscriptionSession;

/** A function that the model may call. */
export interface ShownTool {
  readonly type: "function";
  /** What calls name. */
  readonly name: string;
  /** When to call it; empty if the client gave none. */
  readonly description: string;
  /** JSON schema of the arguments; of an empty object if the client gave none. */
  readonly parameters: Record<string, unknown>;
}

/** Whether the model may, must not or has to call a tool, or which one. */
export type ShownToolChoice =
  | "auto"
  | "none"
  | "required"
  | ChosenFunction;

/** The user's words are told. */
export interface ShownTranscription {
  /** Name of the model pack. */
  readonly model: string;
}

/** The user speaks. While a reply plays it comes when the interruption is confirmed, not at the first sound. */
export interface SpeechStartedEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  readonly type: "input_audio_buffer.speech_started";
  /** Position in the session's input. */
  readonly audio_start_ms: number;
  /** Of the item that this turn will be. */
  readonly item_id: string;
}

/** The user's turn has ended. */
export interface SpeechStoppedEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  readonly type: "input_audio_buffer.speech_stopped";
  /** Position in the session's input. */
  readonly audio_end_ms: number;
  /** The item's id. */
  readonly item_id: string;
}

/** Why a response did not complete. */
export type StatusDetails =
  | CancelledDetails
  | IncompleteDetails
  | FailedDetails;

/** What the client told the model beside the instructions. */
export interface SystemMessage {
  /** Chosen by the client, or given. */
  readonly id: string;
  readonly object: "realtime.item";
  readonly status: "in_progress" | "completed" | "incomplete";
  readonly type: "message";
  readonly role: "system";
  readonly content: readonly InputText[];
}

/** Text in a response: `output_text` inside the item, `text` as a part. */
export interface TextPart {
  readonly type: "text";
  /** As it was written. */
  readonly text: string;
}

/** Nobody spoke for `idle_timeout_ms`: the model is asked to. */
export interface TimeoutTriggeredEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  readonly type: "input_audio_buffer.timeout_triggered";
  /** Position in the session's input at which the last reply had ended. */
  readonly audio_start_ms: number;
  /** Position in the session's input at which the time was over. */
  readonly audio_end_ms: number;
  /** Of the empty item that is committed. */
  readonly item_id: string;
}

/** Bounds of what the model is given. */
export interface TokenLimits {
  /** Tokens of the conversation, without the instructions. */
  readonly post_instructions: number;
}

/** How the user's words are to be told. */
export interface Transcription {
  /** Has no effect: the model pack hears. */
  readonly model?: string | null;
  /** Has no effect: the model pack has its own. */
  readonly language?: string | null;
  /** Has no effect. */
  readonly prompt?: string | null;
  /** Has no effect. */
  readonly delay?: unknown;
  /** Has no effect. */
  readonly keywords?: unknown;
  /** Has no effect. */
  readonly languages?: unknown;
}

/** The one direction of a transcription session. */
export interface TranscriptionAudio {
  readonly input: ShownInput;
}

/** The user's words; the deltas add up to them. */
export interface TranscriptionCompletedEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  /** The item's id. */
  readonly item_id: string;
  /** Place of the part in the item's content, from 0. */
  readonly content_index: number;
  readonly type: "conversation.item.input_audio_transcription.completed";
  /** Empty: nothing was said. */
  readonly transcript: string;
  readonly usage: TranscriptionUsage;
}

/** More of the user's words, while they are spoken or after. */
export interface TranscriptionDeltaEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  /** The item's id. */
  readonly item_id: string;
  /** Place of the part in the item's content, from 0. */
  readonly content_index: number;
  readonly type: "conversation.item.input_audio_transcription.delta";
  /** What is new; all of them, one behind the other, are the whole. */
  readonly delta: string;
}

/** Why there are no words. */
export interface TranscriptionError {
  readonly type: "server_error";
  readonly code: ErrorCode;
  /** For people. */
  readonly message: string;
  /** Always null. */
  readonly param: null;
}

/** The user's words are not known. The session goes on. */
export interface TranscriptionFailedEvent {
  /** `event_`, a number of twelve digits that grows by one with each event, `_`, the session's id. */
  readonly event_id: string;
  /** The item's id. */
  readonly item_id: string;
  /** Place of the part in the item's content, from 0. */
  readonly content_index: number;
  readonly type: "conversation.item.input_audio_transcription.failed";
  readonly error: TranscriptionError;
}

/** A session that writes down and never replies. */
export interface TranscriptionSession {
  readonly type: "transcription";
  readonly object: "realtime.transcription_session";
  /** Its id. */
  readonly id: string;
  /** Seconds since 1970; null: never. */
  readonly expires_at: number | null;
  /** Has no effect. */
  readonly include: readonly "item.input_audio_transcription.logprobs"[];
  readonly audio: TranscriptionAudio;
}

/** What a transcription took. */
export interface TranscriptionUsage {
  readonly type: "duration";
  /** Of audio. */
  readonly seconds: number;
}

/** What is done about a conversation that outgrows the model's context. */
export type Truncation =
  | "auto"
  | "disabled"
  | RetentionRatio;

/** Who decides that a turn has ended. */
export type TurnDetection =
  | ServerVad
  | SemanticVad;

/** Fields of both kinds; those of the other kind are ignored. */
export interface TurnDetectionUpdate {
  /** A turn ends after a silence, or when it sounds ended. */
  readonly type?: "server_vad" | "semantic_vad" | null;
  /** A turn is answered by itself. */
  readonly create_response?: boolean | null;
  /** The user's voice cuts a reply. */
  readonly interrupt_response?: boolean | null;
  /** Of `semantic_vad`: how soon a pause is taken for an end. */
  readonly eagerness?: "low" | "medium" | "high" | "auto" | null;
  /** Of `server_vad`: probability from which on sound is a voice. */
  readonly threshold?: number | null;
  /** Of `server_vad`: taken from before the voice began. */
  readonly prefix_padding_ms?: number | null;
  /** Of `server_vad`: that ends a turn. */
  readonly silence_duration_ms?: number | null;
  /** Of `server_vad`: after so long without a word the model speaks. */
  readonly idle_timeout_ms?: number | null;
}

/** The event that was not sent. */
export interface UnsentEvent {
  /** Its type. */
  readonly type: string;
  /** The number that its client misses. */
  readonly event_id: string;
  /** Its length in UTF-8. */
  readonly bytes: number;
  /** What the data channel takes. */
  readonly bytes_max: number;
}

/** What a response took. */
export interface Usage {
  /** Input and output. */
  readonly total_tokens: number;
  /** Given to the model. */
  readonly input_tokens: number;
  /** Made by the model. */
  readonly output_tokens: number;
  readonly input_token_details: InputTokens;
  readonly output_token_details: OutputTokens;
  readonly duplex: UsageDuplex;
}

/** What this server counts beside tokens. */
export interface UsageDuplex {
  /** Length of the speech that was made. */
  readonly output_audio_ms: number;
  /** Length of the user's turns that this response is the first to be made from. */
  readonly input_audio_ms: number;
  /** The engine has not told the tokens of its prompt. */
  readonly input_estimated: boolean;
}

/** What the user said, typed or showed. */
export interface UserMessage {
  /** Chosen by the client, or given. */
  readonly id: string;
  readonly object: "realtime.item";
  readonly status: "in_progress" | "completed" | "incomplete";
  readonly type: "message";
  readonly role: "user";
  /** Text first, then images; or what was said. */
  readonly content: readonly (InputText | InputAudio | InputImage)[];
}

/** A voice as an object. */
export interface VoiceId {
  /** Its name. */
  readonly id: string;
}
