/** `window.duplexDebug`, there only with `?debug` in the address: what the page has seen, for tests and the curious. */
import {
  type Conversation,
  type MeterReport,
  type PlayedFront,
  playoutOf,
  type ServerEvent,
  type Side,
  type Traffic,
  type ViewState,
} from "../sdk/index.ts";
import { type FrontError, FrontErrors } from "./front_error.ts";
import { StatsPanel } from "./stats.ts";
import type { Timeline } from "./timeline.ts";

const TRAFFIC_MAX = 500;
/** About one minute of level reports. */
const LEVELS_MAX = 3_000;
const PHASES_MAX = 500;

export interface DuplexDebug {
  state(): ViewState;
  /** Newest last; audio never passes here. */
  traffic(): readonly Traffic[];
  /** Levels of one side, as this page hears it. */
  levels(side: Side): readonly MeterReport[];
  /** The reported playback fronts against this page's audio thread. */
  fronts(): readonly FrontError[];
  /** What the strip draws. */
  timeline(): Timeline;
  stats(): Promise<readonly RTCStats[]>;
  /** Each change of phase with its time in milliseconds of `Date.now()`. */
  phases(): readonly { readonly at: number; readonly phase: string }[];
}

declare global {
  interface Window {
    duplexDebug?: DuplexDebug;
  }
}

export class DebugRecord {
  readonly #traffic: Traffic[] = [];
  readonly #levels: Record<Side, MeterReport[]> = { user: [], assistant: [] };
  readonly #errors = new FrontErrors();
  #conversation: Conversation | null = null;
  readonly #phases: { at: number; phase: string }[] = [];

  traffic(traffic: Traffic): void {
    keep(this.#traffic, traffic, TRAFFIC_MAX);
    const { event } = traffic;
    if (isStart(event)) this.#errors.started(event.responseId, traffic.at);
  }

  level(side: Side, report: MeterReport): void {
    keep(this.#levels[side], report, LEVELS_MAX);
    if (side !== "assistant" || report.sound === null) return;
    this.#errors.sound(report.sound === "on", report.at);
    if (report.sound === "on") void this.#count(report.at);
  }

  played(front: PlayedFront): void {
    this.#errors.front(front);
  }

  async #count(at: number): Promise<void> {
    const playout = playoutOf((await this.#conversation?.stats()) ?? [], 0);
    if (playout !== null) this.#errors.counted(at, playout);
  }

  expose(conversation: Conversation, timeline: () => Timeline): void {
    this.#conversation = conversation;
    new StatsPanel(conversation, this.#errors);
    conversation.subscribe(({ phase }) => {
      if (this.#phases.at(-1)?.phase !== phase) keep(this.#phases, { at: Date.now(), phase }, PHASES_MAX);
    });
    window.duplexDebug = {
      state: () => conversation.state,
      traffic: () => [...this.#traffic],
      levels: (side) => [...this.#levels[side]],
      fronts: () => [...this.#errors.all],
      timeline,
      stats: () => conversation.stats(),
      phases: () => [...this.#phases],
    };
  }
}

function isStart(event: unknown): event is Extract<ServerEvent, { type: "output_audio_buffer.started" }> {
  return (event as { readonly type?: unknown }).type === "output_audio_buffer.started";
}

function keep<T>(list: T[], entry: T, max: number): void {
  list.push(entry);
  if (list.length > max) list.shift();
}
