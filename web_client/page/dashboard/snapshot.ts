/**
 * What `GET /v1/duplex/live` sends: the server at one moment. Mirrors duplex/telemetry/snapshot.py field by field.
 *
 * Times are in seconds (`_s`, and all quantiles) or milliseconds (`_ms`); null means that nothing was measured.
 */

/** What a session is doing; `ducked` and `held`: its reply is lowered or withheld under the user's voice. */
export type LaneMode = "connecting" | "listening" | "hearing" | "thinking" | "speaking" | "ducked" | "held";

/** A measure over the window, in seconds. */
export interface Quantiles {
  /** Values in the window; the quantiles are null when 0. */
  readonly n: number;
  readonly p50: number | null;
  readonly p90: number | null;
  readonly p95: number | null;
}

export interface ModelView {
  readonly name: string;
  /** It only stands in for a model. */
  readonly test_double: boolean;
}

export interface SessionsView {
  readonly live: number;
  readonly max: number;
  /** No new sessions are taken; the live ones may finish. */
  readonly draining: boolean;
}

/** The parts of the time to first audio, in the order in which they happen. */
export interface TtfasSplit {
  readonly endpointing: Quantiles;
  readonly transcribe: Quantiles;
  readonly think: Quantiles;
  readonly talk: Quantiles;
  readonly vocode: Quantiles;
  readonly send: Quantiles;
}

/** End of the user's speech to the first audible sample, over the window. */
export interface TtfasView {
  /** As it left the server. */
  readonly sent: Quantiles;
  /** As the listener is estimated to hear it (WebRTC only). */
  readonly heard: Quantiles;
  readonly split: TtfasSplit;
}

/** One step of the history. */
export interface Bucket {
  /** Unix time of its start. */
  readonly at_s: number;
  readonly ttfas_p50_s: number | null;
  readonly ttfas_p90_s: number | null;
  readonly underruns: number;
  /** Replies cut by the user's voice. */
  readonly barge_ins: number;
  /** Most sessions that were live at once. */
  readonly sessions: number;
}

/** Gaps inside replies, as they left the server. */
export interface UnderrunsView {
  readonly window_n: number;
  readonly window_s: number;
  /** Since the server's start. */
  readonly total_n: number;
  readonly total_s: number;
}

/** Interruptions over the window. */
export interface BargeInView {
  /** Voice to the onset that lowers the reply. */
  readonly detect: Quantiles;
  /** Onset to the decision to cut. */
  readonly confirm: Quantiles;
  /** Decision to the next packet, which is the fade. */
  readonly egress: Quantiles;
  /** Onsets over a reply by what they turned out to be (`confirmed`, `refused`, …). */
  readonly outcomes: Readonly<Record<string, number>>;
}

/** One live session's output. */
export interface LaneView {
  /** Names the session for as long as it lives, and gives no access to it. */
  readonly key: number;
  readonly mode: LaneMode;
  readonly transport: "webrtc" | "websocket";
  /** Audio generated and not yet played. */
  readonly lead_ms: number;
  /** The lead at which generation pauses; null: as far ahead as the bound on unsent audio allows. */
  readonly target_ms: number | null;
  /** Until the listener runs dry if nothing more is made; negative: dry since; null: nothing sounds, or all of it is made. */
  readonly slack_ms: number | null;
  /** Cuts of the lane so far. */
  readonly epoch: number;
  /** Since the session began. */
  readonly age_s: number;
}

/** One stage of the model. */
export interface StageView {
  readonly name: string;
  readonly role: string;
  readonly device: string;
  /** Jobs it can compute at once. */
  readonly slots: number;
  /** Jobs that wait for it at this moment. */
  readonly queued: number;
  /** Media in them. */
  readonly queued_ms: number;
  /** Jobs it computes at this moment. */
  readonly running: number;
  /** Jobs computed together while it computed, over the window. */
  readonly batch_mean: number | null;
  /** Measured time of one step. */
  readonly step_ms: number;
  /** Share of the window in which it computed anything, 0..1. */
  readonly busy: number;
  /** Wait in its queue. */
  readonly queue_p95_s: number | null;
}

/** One thing that bounds how many sessions are taken. */
export interface LimitView {
  readonly name: string;
  /** In the limit's own unit. */
  readonly load: number;
  readonly limit: number;
}

/** Sessions asked for, since the server's start. */
export interface AdmissionView {
  readonly admitted: number;
  /** By reason. */
  readonly refused: Readonly<Record<string, number>>;
  readonly limits: readonly LimitView[];
}

/** The event loop over the window. */
export interface LoopView {
  /** How late it wakes. */
  readonly lag: Quantiles;
  /** How late audio packets leave. */
  readonly lateness: Quantiles;
  /** The server's own share of a turn. */
  readonly overhead: Quantiles;
}

/** The server at one moment. */
export interface Snapshot {
  /** Grows from snapshot to snapshot; a gap means that this watcher read too slowly. */
  readonly seq: number;
  /** Unix time. */
  readonly at_s: number;
  readonly uptime_s: number;
  readonly version: string;
  readonly model: ModelView;
  /** Length of the sliding window. */
  readonly window_s: number;
  /** Length of one bucket of the history. */
  readonly bucket_s: number;
  readonly sessions: SessionsView;
  readonly ttfas: TtfasView;
  /** Oldest first; the last one is still filling. */
  readonly history: readonly Bucket[];
  readonly underruns: UnderrunsView;
  readonly barge_in: BargeInView;
  /** Every live session, oldest first. */
  readonly lanes: readonly LaneView[];
  /** In the order of the graph. */
  readonly stages: readonly StageView[];
  readonly admission: AdmissionView;
  readonly loop: LoopView;
  /** Since the server's start; stays 0. */
  readonly invariants_broken: number;
  /** Since the server's start; stays 0. */
  readonly stale_packets: number;
}
