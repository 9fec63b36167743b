/** The dashboard's view state and the only place where it changes: `reduce(state, happening)`. */
import { follow, hearClock, type LaneTracks, type PictureClock } from "./lanes.ts";
import type { Snapshot } from "./snapshot.ts";

/** Why there are no snapshots. */
export type LossCause =
  /** The server does not answer, or the connection broke. */
  | "unreachable"
  /** It has as many watchers as it allows. */
  | "busy"
  /** It asks for a key. */
  | "access"
  /** It answered with another error. */
  | "refused"
  /** It stays connected and says nothing. */
  | "silent"
  /** It sends what this page does not know: one of the two is older. */
  | "unreadable";

export type Link =
  | { readonly kind: "connecting" }
  | { readonly kind: "live" }
  | {
      readonly kind: "lost";
      readonly cause: LossCause;
      /** HTTP status of the answer; null without one. */
      readonly status: number | null;
      /** When it is tried again, milliseconds of the page's clock; infinite: when there is a key. */
      readonly retryMs: number;
    };

/** What the event loop was like at one second, as the page saw it. */
export interface LoopPoint {
  /** Unix seconds. */
  readonly at_s: number;
  readonly lag_p95_s: number | null;
  readonly lateness_p95_s: number | null;
}

/** Time to first audio as the listeners heard it, over the server's window, at one moment that the page saw. */
export interface HeardPoint {
  /** Unix seconds. */
  readonly at_s: number;
  readonly p50_s: number | null;
  readonly p90_s: number | null;
}

export interface DashboardState {
  readonly link: Link;
  /** The newest; kept when the connection is lost, with `link` saying so. */
  readonly snapshot: Snapshot | null;
  readonly clock: PictureClock | null;
  readonly lanes: LaneTracks;
  /** One per second since the page was opened, the last ten minutes; oldest first. */
  readonly loop: readonly LoopPoint[];
  readonly heard: readonly HeardPoint[];
}

export type Happening =
  | { readonly type: "connecting" }
  /** @param receivedMs on the page's clock. */
  | { readonly type: "snapshot"; readonly snapshot: Snapshot; readonly receivedMs: number }
  | { readonly type: "lost"; readonly cause: LossCause; readonly status: number | null; readonly retryMs: number };

export const INITIAL: DashboardState = {
  link: { kind: "connecting" },
  snapshot: null,
  clock: null,
  lanes: new Map(),
  loop: [],
  heard: [],
};

/** What the page collects by itself reaches as far back as the server's own history. */
export const HISTORY_S = 600;
const STEP_S = 1;

export function reduce(state: DashboardState, happening: Happening): DashboardState {
  switch (happening.type) {
    case "connecting":
      // While it is being tried again the page goes on to say that it is lost.
      return state.link.kind === "lost" ? state : { ...state, link: { kind: "connecting" } };
    case "lost":
      return { ...state, link: { kind: "lost", cause: happening.cause, status: happening.status, retryMs: happening.retryMs } };
    case "snapshot":
      return takeSnapshot(isRestart(state, happening.snapshot) ? INITIAL : state, happening.snapshot, happening.receivedMs);
  }
}

/** Another process answers: what was known of the one before has nothing to do with it. */
function isRestart({ snapshot: before }: DashboardState, snapshot: Snapshot): boolean {
  return before !== null && snapshot.uptime_s < before.uptime_s;
}

function takeSnapshot(state: DashboardState, snapshot: Snapshot, receivedMs: number): DashboardState {
  // Watchers share snapshots, so one may come twice.
  if (snapshot.seq === state.snapshot?.seq) return { ...state, link: { kind: "live" } };
  const { at_s, loop, ttfas } = snapshot;
  return {
    link: { kind: "live" },
    snapshot,
    clock: hearClock(state.clock, at_s * 1000, receivedMs),
    lanes: follow(state.lanes, snapshot),
    loop: collect(state.loop, { at_s, lag_p95_s: loop.lag.p95, lateness_p95_s: loop.lateness.p95 }),
    heard: collect(state.heard, { at_s, p50_s: ttfas.heard.p50, p90_s: ttfas.heard.p90 }),
  };
}

/** Keep one point per step and those of the last `HISTORY_S`. */
function collect<T extends { readonly at_s: number }>(points: readonly T[], point: T): readonly T[] {
  const last = points.at(-1);
  if (last !== undefined && point.at_s < last.at_s + STEP_S) return points;
  return [...points.filter(({ at_s }) => at_s > point.at_s - HISTORY_S), point];
}

export interface LinkWords {
  readonly label: string;
  /** What it means for what is shown; empty where all is well. */
  readonly text: string;
  /** When it is tried again; empty where it is not. */
  readonly again: string;
}

/** @param nowMs of the page's clock, for the countdown. */
export function linkWords({ link, snapshot }: DashboardState, nowMs: number): LinkWords {
  switch (link.kind) {
    case "connecting":
      return { label: "Connecting", text: "", again: "" };
    case "live":
      return snapshot?.sessions.draining === true
        ? { label: "Draining", text: "", again: "" }
        : { label: "Live", text: "", again: "" };
    case "lost": {
      const waitS = Math.ceil((link.retryMs - nowMs) / 1000);
      const [label, text] = LOSS_WORDS[link.cause];
      if (link.cause === "access") return { label, text, again: "" };
      const status = link.status === null ? "" : ` (status ${link.status})`;
      return { label, text: `${text}${status}`, again: waitS > 0 ? `Trying again in ${waitS} s.` : "Trying again." };
    }
  }
}

const LOSS_WORDS: Readonly<Record<LossCause, readonly [label: string, text: string]>> = {
  unreachable: ["Connection lost", "The server does not answer."],
  busy: ["Server busy", "The server takes no further watcher."],
  access: ["Key needed", "This server asks for a key: reload the page to enter one."],
  refused: ["Refused", "The server gives no snapshots."],
  silent: ["No news", "The server is connected and says nothing."],
  unreadable: ["Unreadable", "The server sends what this page does not know: reload it."],
};
