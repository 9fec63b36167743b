/** `window.duplexDebug`, there only with `?debug` in the address: what the page has seen, for tests and the curious. */
import type { Conversation, MeterReport, Side, Traffic, ViewState } from "../sdk/index.ts";

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
  readonly #phases: { at: number; phase: string }[] = [];

  traffic(traffic: Traffic): void {
    keep(this.#traffic, traffic, TRAFFIC_MAX);
  }

  level(side: Side, report: MeterReport): void {
    keep(this.#levels[side], report, LEVELS_MAX);
  }

  expose(conversation: Conversation): void {
    conversation.subscribe(({ phase }) => {
      if (this.#phases.at(-1)?.phase !== phase) keep(this.#phases, { at: Date.now(), phase }, PHASES_MAX);
    });
    window.duplexDebug = {
      state: () => conversation.state,
      traffic: () => [...this.#traffic],
      levels: (side) => [...this.#levels[side]],
      phases: () => [...this.#phases],
    };
  }
}

function keep<T>(list: T[], entry: T, max: number): void {
  list.push(entry);
  if (list.length > max) list.shift();
}
