/** `window.duplexDebug`, there only with `?debug` in the address: what the page has seen, for tests and the curious. */
import type { Conversation, MeterReport, Traffic, ViewState } from "../sdk/index.ts";

const TRAFFIC_MAX = 500;
/** About one minute of level reports. */
const LEVELS_MAX = 3_000;
const PHASES_MAX = 500;

export interface DuplexDebug {
  state(): ViewState;
  /** Newest last; audio never passes here. */
  traffic(): readonly Traffic[];
  /** Levels of the remote stream. */
  levels(): readonly MeterReport[];
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
  readonly #levels: MeterReport[] = [];
  readonly #phases: { at: number; phase: string }[] = [];

  traffic(traffic: Traffic): void {
    keep(this.#traffic, traffic, TRAFFIC_MAX);
  }

  level(report: MeterReport): void {
    keep(this.#levels, report, LEVELS_MAX);
  }

  expose(conversation: Conversation): void {
    conversation.subscribe(({ phase }) => {
      if (this.#phases.at(-1)?.phase !== phase) keep(this.#phases, { at: Date.now(), phase }, PHASES_MAX);
    });
    window.duplexDebug = {
      state: () => conversation.state,
      traffic: () => [...this.#traffic],
      levels: () => [...this.#levels],
      phases: () => [...this.#phases],
    };
  }
}

function keep<T>(list: T[], entry: T, max: number): void {
  list.push(entry);
  if (list.length > max) list.shift();
}
