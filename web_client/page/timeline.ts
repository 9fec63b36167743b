/**
 * What the strip draws: the last seconds of the session as spans of time, from the events that reach this page. Pure.
 *
 *     you     ▇▇▇▇▇            ▇▇▇       the server takes it as speech
 *     said       ░░▓▓▓▓▓▓▓▓▓▓▓▓│         made; sent to this page; │ cut
 *     played        ▇▇▇▇▇▇▇▇▇▇▇▇         heard in this page, by its audio thread
 *
 * All times are of this page's clock, when the event arrived; so a mark can be later than what it reports by what the
 * server waits before it decides, and the way.
 */
import type { ServerEvent } from "../sdk/index.ts";

/** How much of the past is kept. */
export const STRIP_MS = 20_000;

export type StripRow = "heard" | "made" | "sent" | "played";

export interface StripSpan {
  readonly row: StripRow;
  /** The item or the reply that it belongs to; empty for what was played. */
  readonly id: string;
  readonly from: number;
  /** Null while it lasts. */
  readonly to: number | null;
}

export interface Timeline {
  /** In order of their beginnings. */
  readonly spans: readonly StripSpan[];
  /** When a reply was cut. */
  readonly cuts: readonly number[];
}

export type StripEvent =
  | ServerEvent
  /** The model's voice became audible in this page, or silent. */
  | { readonly type: "played"; readonly on: boolean }
  /** The conversation is over: nothing goes on. */
  | { readonly type: "ended" };

export const NO_TIMELINE: Timeline = { spans: [], cuts: [] };

/** The timeline after one event at `at`, without what is too old to be drawn. */
export function follow(timeline: Timeline, at: number, event: StripEvent): Timeline {
  const { spans, cuts } = recent(timeline, at);
  switch (event.type) {
    case "input_audio_buffer.speech_started":
      return { spans: [...spans, { row: "heard", id: event.itemId, from: at, to: null }], cuts };
    case "input_audio_buffer.speech_stopped":
    case "input_audio_buffer.committed":
      return { spans: ended(spans, at, "heard", event.itemId), cuts };
    case "input_audio_buffer.cleared":
      return { spans: ended(spans, at, "heard"), cuts };
    case "response.created":
      if (event.beside === true) return { spans, cuts };
      return { spans: [...spans, { row: "made", id: event.responseId, from: at, to: null }], cuts };
    case "response.done":
      return { spans: ended(spans, at, "made", event.responseId), cuts };
    case "output_audio_buffer.started":
      return { spans: [...spans, { row: "sent", id: event.responseId, from: at, to: null }], cuts };
    case "output_audio_buffer.stopped":
      return { spans: ended(spans, at, "sent", event.responseId), cuts };
    case "output_audio_buffer.cleared":
      return { spans: ended(spans, at, "sent", event.responseId), cuts: [...cuts, at] };
    case "played":
      return {
        spans: event.on ? [...spans, { row: "played", id: "", from: at, to: null }] : ended(spans, at, "played"),
        cuts,
      };
    case "ended":
      return { spans: ended(spans, at), cuts };
    default:
      return { spans, cuts };
  }
}

function recent({ spans, cuts }: Timeline, now: number): Timeline {
  const oldest = now - STRIP_MS;
  return {
    spans: spans.filter((span) => span.to === null || span.to >= oldest),
    cuts: cuts.filter((cut) => cut >= oldest),
  };
}

/** End what lasts: of a row, of one id in it, or all. */
function ended(spans: readonly StripSpan[], at: number, row?: StripRow, id?: string): readonly StripSpan[] {
  return spans.map((span) => {
    const meant = (row === undefined || span.row === row) && (id === undefined || span.id === id);
    return span.to === null && meant ? { ...span, to: at } : span;
  });
}
