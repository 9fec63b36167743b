/**
 * What the moving picture knows of each session, between the snapshots too. Pure: times are arguments.
 *
 * The picture runs a little behind the server, so that what it shows lies between two snapshots that are both there:
 *
 *     snapshots   ──┬────────┬────────┬────────┬──▶ server time
 *                                     │  shown │
 *                                     ╰── ▲ ───╯ newest
 *
 * Between two snapshots the lead goes in a straight line. Beyond the newest one nothing is invented: the picture stands.
 */
import type { LaneMode, LaneView, Snapshot } from "./snapshot.ts";

/** Past that the picture shows. */
export const PAST_MS = 10_000;
/** How long the lane of a session that has ended stays to be seen. */
export const ENDED_MS = 2_000;

export interface LaneSample {
  /** Server time, Unix milliseconds. */
  readonly atMs: number;
  readonly mode: LaneMode;
  readonly leadMs: number;
  readonly targetMs: number | null;
  readonly slackMs: number | null;
  readonly epoch: number;
}

export interface LaneTrack {
  readonly key: number;
  readonly transport: LaneView["transport"];
  /** Unix milliseconds. */
  readonly bornMs: number;
  /** Oldest first; never empty. */
  readonly samples: readonly LaneSample[];
  /** When cuts were seen, oldest first. */
  readonly cuts: readonly number[];
  /** When a snapshot first lacked it; null while it lives. */
  readonly endedMs: number | null;
}

export type LaneTracks = ReadonlyMap<number, LaneTrack>;

/** Take one snapshot into the tracks: new sessions at the end, ended ones kept for `ENDED_MS`. */
export function follow(tracks: LaneTracks, { at_s, lanes }: Pick<Snapshot, "at_s" | "lanes">): LaneTracks {
  const atMs = at_s * 1000;
  const next = new Map<number, LaneTrack>();
  const views = new Map(lanes.map((lane) => [lane.key, lane]));
  for (const [key, track] of tracks) {
    const view = views.get(key);
    if (view !== undefined) next.set(key, extend(track, view, atMs));
    else if (track.endedMs === null) next.set(key, { ...track, endedMs: atMs });
    else if (atMs - track.endedMs < ENDED_MS) next.set(key, track);
  }
  for (const [key, view] of views) {
    if (!next.has(key)) next.set(key, begin(view, atMs));
  }
  return next;
}

function begin(view: LaneView, atMs: number): LaneTrack {
  const { key, transport, age_s } = view;
  return { key, transport, bornMs: atMs - age_s * 1000, samples: [sample(view, atMs)], cuts: [], endedMs: null };
}

function extend(track: LaneTrack, view: LaneView, atMs: number): LaneTrack {
  const previous = track.samples.at(-1);
  if (previous !== undefined && atMs <= previous.atMs) return track;
  // One sample older than the picture, so that its left edge is drawn.
  const kept = track.samples.findIndex(({ atMs: time }) => time >= atMs - PAST_MS - 1_000);
  const cut = previous !== undefined && view.epoch > previous.epoch ? [atMs] : [];
  return {
    ...track,
    samples: [...track.samples.slice(Math.max(0, kept - 1)), sample(view, atMs)],
    cuts: [...track.cuts.filter((time) => time > atMs - PAST_MS - 1_000), ...cut],
    // It may have been missing from one snapshot only.
    endedMs: null,
  };
}

function sample(view: LaneView, atMs: number): LaneSample {
  const { mode, lead_ms, target_ms, slack_ms, epoch } = view;
  return { atMs, mode, leadMs: lead_ms, targetMs: target_ms, slackMs: slack_ms, epoch };
}

/**
 * The lane at one moment.
 *
 * Leads and slacks go in a straight line between two samples of one epoch. A cut throws the lead away at once, so up to it
 * the lead drains as the listener listens.
 *
 * @returns null before its first sample.
 */
export function laneAt({ samples }: LaneTrack, atMs: number): LaneSample | null {
  const index = samples.findLastIndex((entry) => entry.atMs <= atMs);
  const before = samples[index];
  if (before === undefined) return null;
  const after = samples[index + 1];
  if (after === undefined) return before;
  const passedMs = atMs - before.atMs;
  if (after.epoch !== before.epoch) return { ...before, atMs, leadMs: Math.max(0, before.leadMs - passedMs) };
  const along = passedMs / (after.atMs - before.atMs);
  const mix = (from: number, to: number): number => from + (to - from) * along;
  const slackMs = before.slackMs === null || after.slackMs === null ? before.slackMs : mix(before.slackMs, after.slackMs);
  return { ...before, atMs, leadMs: mix(before.leadMs, after.leadMs), slackMs };
}

/** The listener has nothing to hear, although a reply is under way. */
export function isDry(entry: LaneSample): boolean {
  return entry.slackMs !== null && entry.slackMs < 0;
}

/** A stretch of the past in which the mode was the same, for drawing. */
export interface Stretch {
  readonly fromMs: number;
  readonly toMs: number;
  readonly mode: LaneMode;
  readonly dry: boolean;
}

/** The past of a lane from `fromMs` up to `toMs` in stretches, oldest first. */
export function stretches(track: LaneTrack, fromMs: number, toMs: number): readonly Stretch[] {
  const found: Stretch[] = [];
  for (const [index, entry] of track.samples.entries()) {
    const end = Math.min(track.samples[index + 1]?.atMs ?? track.endedMs ?? toMs, toMs);
    const start = Math.max(entry.atMs, fromMs);
    if (end <= start) continue;
    const last = found.at(-1);
    const dry = isDry(entry);
    if (last !== undefined && last.mode === entry.mode && last.dry === dry && last.toMs === start) {
      found[found.length - 1] = { ...last, toMs: end };
    } else {
      found.push({ fromMs: start, toMs: end, mode: entry.mode, dry });
    }
  }
  return found;
}

// The clock of the picture. -----------------------------------------------------------------------------------------

export interface PictureClock {
  /** Server time less the page's own, milliseconds: that of the least delayed snapshot. */
  readonly offsetMs: number;
  /** Mean time between snapshots, milliseconds. */
  readonly spacingMs: number;
  /** Server time of the newest snapshot. */
  readonly newestMs: number;
}

const SPACING_MS_MIN = 50;
const SPACING_MS_MAX = 2_000;
/** The offset follows later snapshots slowly, so that clocks that drift apart stay together. */
const DRIFT_MS = 0.5;
/** A wall clock that was set. */
const JUMP_MS = 3_000;

/** Take the arrival of a snapshot: `atMs` on the server's clock, `receivedMs` on the page's. */
export function hearClock(clock: PictureClock | null, atMs: number, receivedMs: number): PictureClock {
  const offsetMs = atMs - receivedMs;
  if (clock === null || Math.abs(offsetMs - clock.offsetMs) > JUMP_MS || atMs < clock.newestMs) {
    return { offsetMs, spacingMs: clock?.spacingMs ?? 200, newestMs: atMs };
  }
  const spacingMs = Math.min(SPACING_MS_MAX, Math.max(SPACING_MS_MIN, atMs - clock.newestMs));
  return {
    offsetMs: Math.max(offsetMs, clock.offsetMs - DRIFT_MS),
    spacingMs: clock.spacingMs + (spacingMs - clock.spacingMs) / 8,
    newestMs: atMs,
  };
}

/** How far behind the server the picture runs, milliseconds: one snapshot and a half, so that a late one is no stop. */
export function delayMs(clock: PictureClock): number {
  return 1.5 * clock.spacingMs;
}

/** The server time that the picture shows at the page's `nowMs`; it stands still at the newest snapshot. */
export function shownMs(clock: PictureClock, nowMs: number): number {
  return Math.min(nowMs + clock.offsetMs - delayMs(clock), clock.newestMs);
}

// Where things are in the picture. ----------------------------------------------------------------------------------

export interface LaneGrid {
  readonly columns: number;
  /** Lanes of one column. */
  readonly rows: number;
  /** Pixels from one lane to the next. */
  readonly pitch: number;
}

const PITCH_MAX = 64;
/** Below this a lane is a thread; then the lanes go into columns. */
const PITCH_MIN = 5;
const COLUMN_WIDTH_MIN = 260;

/** Fit `count` lanes into a picture: tall ones as long as there is room, then thin ones, then columns. */
export function laneGrid(count: number, width: number, height: number): LaneGrid {
  const columnsMax = Math.max(1, Math.floor(width / COLUMN_WIDTH_MIN));
  const fitting = Math.max(1, Math.floor(height / PITCH_MIN));
  const columns = Math.min(columnsMax, Math.max(1, Math.ceil(count / fitting)));
  const rows = Math.max(1, Math.ceil(count / columns));
  return { columns, rows, pitch: Math.min(PITCH_MAX, height / rows) };
}

const AHEAD_STEPS_MS = [500, 1_000, 2_000, 5_000, 10_000, 30_000];

/** The future that the picture shows, milliseconds: the smallest step that holds leads and targets of all the lanes. */
export function aheadMs(tracks: LaneTracks, atMs: number): number {
  let most = 0;
  for (const track of tracks.values()) {
    const entry = laneAt(track, atMs);
    if (entry !== null) most = Math.max(most, entry.leadMs, entry.targetMs ?? 0, entry.slackMs ?? 0);
  }
  return AHEAD_STEPS_MS.find((step) => step >= most * 1.05) ?? Math.ceil(most / 10_000) * 10_000;
}

/** Up to here the future is drawn in proportion, for here it is decided whether a listener runs dry. */
const NEAR_MS = 1_000;
/** Share of the future's room that this part keeps, however far the future goes. */
const NEAR_SHARE = 0.6;

/**
 * Where a moment of the future stands, as a share 0..1 of its room.
 *
 * @param ms from now, ≥ 0.
 * @param wholeMs the future that is shown.
 */
export function aheadShare(ms: number, wholeMs: number): number {
  if (wholeMs <= NEAR_MS) return Math.min(1, ms / wholeMs);
  const near = Math.max(NEAR_SHARE, NEAR_MS / wholeMs);
  if (ms <= NEAR_MS) return (near * ms) / NEAR_MS;
  return Math.min(1, near + ((1 - near) * (ms - NEAR_MS)) / (wholeMs - NEAR_MS));
}

/** How many lanes are in each mode. */
export function modeCounts(lanes: readonly LaneView[]): Readonly<Record<LaneMode, number>> {
  const counts = { connecting: 0, listening: 0, hearing: 0, thinking: 0, speaking: 0, ducked: 0, held: 0 };
  for (const { mode } of lanes) counts[mode] += 1;
  return counts;
}

/** The picture in one sentence, for those who do not see it. */
export function lanesInWords(lanes: readonly LaneView[]): string {
  if (lanes.length === 0) return "No live session.";
  const modes = Object.entries(modeCounts(lanes)).filter(([, count]) => count > 0);
  const slacks = lanes.flatMap(({ slack_ms }) => (slack_ms === null ? [] : [slack_ms]));
  const least = slacks.length === 0 ? "no reply plays" : `least slack ${Math.min(...slacks)} ms`;
  const sessions = lanes.length === 1 ? "1 session" : `${lanes.length} sessions`;
  return `${sessions}: ${modes.map(([mode, count]) => `${count} ${mode}`).join(", ")}; ${least}.`;
}
