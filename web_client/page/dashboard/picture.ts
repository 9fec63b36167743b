/**
 * The moving picture: a lane for each session, time flowing from right to left through the line that is now.
 *
 *     10 s ago                                  now        1 s ahead
 *     ▁▁▁▁▂▂▂▂▂▂▅▅▅▅▆▆▅▅┃▁▁▁▁▁▁▁▁▁▂▂▂▂▂▅▅▅▅▅▆▆▆▆│██████████░░░░░  ╎
 *     lead and state of the past        cut ┘   │ lead     slack  target
 *
 * Everything drawn lies between two snapshots (`lanes.ts`). Who prefers reduced motion sees it in steps of a second.
 */
import { age, milliseconds } from "./format.ts";
import { aheadMs, aheadShare, isDry, laneAt, laneGrid, type LaneGrid, type LaneSample, type LaneTrack, PAST_MS, shownMs, stretches } from "./lanes.ts";
import type { LaneMode } from "./snapshot.ts";
import type { DashboardState } from "./state.ts";

const AXIS = 20;
const TALL = 15;
const WIDE = 480;
const PIXEL_RATIO_MAX = 2;
const FLASH_MS = 700;
const STEP_MS = 1_000;
/** So long the future stays wide after it could be narrower. */
const NARROW_MS = 4_000;
/** Share of the way that the future's width goes in one frame. */
const ZOOM = 0.15;
const MODES: readonly LaneMode[] = ["connecting", "listening", "hearing", "thinking", "speaking", "ducked", "held"];

type Colour = LaneMode | "dry" | "cut" | "ink";
type Colours = Readonly<Record<Colour, string>>;

/** One column of lanes: where its parts begin, and how long things are in it. */
interface Column {
  readonly left: number;
  readonly width: number;
  readonly nowX: number;
  readonly pastPerMs: number;
  readonly aheadWidth: number;
  /** Lanes are tall enough for words. */
  readonly tall: boolean;
  readonly wide: boolean;
}

/** One lane's place. */
interface Place {
  readonly column: Column;
  readonly top: number;
  readonly height: number;
}

export class LanePicture {
  readonly #canvas: HTMLCanvasElement;
  readonly #context: CanvasRenderingContext2D;
  readonly #state: () => DashboardState;
  readonly #reading: HTMLElement;
  readonly #still = matchMedia("(prefers-reduced-motion: reduce)");
  #colours: Colours;
  #ahead = 1_000;
  #narrowSinceMs: number | null = null;
  #drawnMs = -Infinity;
  #drawnState: DashboardState | null = null;
  #selected: number | null = null;

  /** @param reading where the selected lane's values are written. */
  constructor(canvas: HTMLCanvasElement, reading: HTMLElement, state: () => DashboardState) {
    const context = canvas.getContext("2d");
    if (context === null) throw new Error("no 2D canvas");
    this.#canvas = canvas;
    this.#context = context;
    this.#reading = reading;
    this.#state = state;
    this.#colours = readColours(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.#colours = readColours(canvas);
      this.#drawnState = null;
    });
    new ResizeObserver(() => this.#resize()).observe(canvas);
    canvas.addEventListener("pointermove", (event) => this.#select(this.#laneUnder(event)));
    canvas.addEventListener("pointerleave", () => this.#select(null));
    canvas.addEventListener("blur", () => this.#select(null));
    canvas.addEventListener("keydown", (event) => this.#key(event));
    requestAnimationFrame((nowMs) => this.#frame(nowMs));
  }

  // Choosing a lane. ------------------------------------------------------------------------------------------------

  #laneUnder({ offsetX, offsetY }: PointerEvent): number | null {
    const keys = [...this.#state().lanes.keys()];
    const { columns, rows, pitch } = this.#grid(keys.length);
    const column = Math.floor(offsetX / (this.#canvas.clientWidth / columns));
    const row = Math.floor((offsetY - AXIS) / pitch);
    return row < 0 || row >= rows ? null : (keys[column * rows + row] ?? null);
  }

  #key(event: KeyboardEvent): void {
    const keys = [...this.#state().lanes.keys()];
    const at = this.#selected === null ? -1 : keys.indexOf(this.#selected);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: keys.length - 1 }[event.key];
    if (event.key === "Escape") this.#select(null);
    if (to === undefined || keys.length === 0) return;
    event.preventDefault();
    this.#select(keys[Math.min(keys.length - 1, Math.max(0, to))] ?? null);
  }

  #select(key: number | null): void {
    this.#selected = key;
    this.#drawnState = null;
  }

  // Drawing. --------------------------------------------------------------------------------------------------------

  #grid(count: number): LaneGrid {
    return laneGrid(count, this.#canvas.clientWidth, this.#canvas.clientHeight - AXIS);
  }

  #resize(): void {
    const ratio = Math.min(PIXEL_RATIO_MAX, devicePixelRatio);
    this.#canvas.width = Math.round(this.#canvas.clientWidth * ratio);
    this.#canvas.height = Math.round(this.#canvas.clientHeight * ratio);
    this.#drawnState = null;
  }

  #frame(nowMs: number): void {
    requestAnimationFrame((next) => this.#frame(next));
    const state = this.#state();
    const atMs = state.clock === null ? 0 : shownMs(state.clock, nowMs);
    const stands = atMs === this.#drawnMs || (this.#still.matches && Math.abs(atMs - this.#drawnMs) < STEP_MS);
    // A new state alone is no reason to draw: the time that is shown moves by itself.
    if (this.#drawnState !== null && (stands || state.lanes.size + this.#drawnState.lanes.size === 0)) return;
    this.#drawnMs = atMs;
    this.#drawnState = state;
    this.#zoom(state, atMs);
    this.#draw(state, atMs);
  }

  /** Widen the future at once where a lead needs it, narrow it after a while. */
  #zoom(state: DashboardState, atMs: number): void {
    const wanted = aheadMs(state.lanes, atMs);
    if (wanted >= this.#ahead) this.#narrowSinceMs = null;
    else this.#narrowSinceMs ??= atMs;
    if (this.#narrowSinceMs !== null && atMs - this.#narrowSinceMs < NARROW_MS) return;
    const rest = wanted - this.#ahead;
    this.#ahead = this.#still.matches || Math.abs(rest) < 2 ? wanted : this.#ahead + rest * ZOOM;
  }

  #draw(state: DashboardState, atMs: number): void {
    const pen = this.#context;
    const { clientWidth, clientHeight } = this.#canvas;
    if (clientWidth === 0) return;
    const ratio = this.#canvas.width / clientWidth;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, clientWidth, clientHeight);
    pen.font = `12px ${getComputedStyle(this.#canvas).fontFamily}`;
    pen.textBaseline = "middle";
    const tracks = [...state.lanes.values()];
    const { columns, rows, pitch } = this.#grid(tracks.length);
    const gap = pitch >= TALL ? 4 : pitch >= 8 ? 2 : 1;
    for (let index = 0; index < columns; index += 1) {
      const column = this.#column((index * clientWidth) / columns, clientWidth / columns, pitch);
      this.#drawAxis(column, clientHeight);
      for (const [row, track] of tracks.slice(index * rows, (index + 1) * rows).entries()) {
        this.#drawLane(track, { column, top: AXIS + row * pitch + gap / 2, height: pitch - gap }, atMs);
      }
      this.#drawNow(column, clientHeight);
    }
    this.#read(state, atMs);
  }

  #column(left: number, outer: number, pitch: number): Column {
    const tall = pitch >= TALL;
    const wide = outer >= WIDE;
    const names = tall ? (wide ? 110 : 34) : 4;
    const numbers = tall && wide ? 112 : 10;
    const inner = outer - names - numbers;
    const past = inner * 0.58;
    return {
      left: left + names,
      width: inner,
      nowX: left + names + past,
      pastPerMs: past / PAST_MS,
      aheadWidth: inner - past,
      tall,
      wide,
    };
  }

  #drawAxis({ left, width, nowX, pastPerMs, aheadWidth }: Column, height: number): void {
    const pen = this.#context;
    pen.fillStyle = this.#colours.ink;
    // Halfway in time, or where the scale changes.
    const between = Math.min(1_000, this.#ahead / 2);
    const seconds = (ms: number): string => `+${Number((ms / 1_000).toFixed(2))}\u00a0s`;
    const marks: readonly (readonly [number, string, CanvasTextAlign])[] = [
      [nowX - PAST_MS * pastPerMs, `−${PAST_MS / 1_000}\u00a0s`, "left"],
      [nowX - (PAST_MS * pastPerMs) / 2, `−${PAST_MS / 2_000}\u00a0s`, "center"],
      [nowX, "now", "center"],
      [nowX + aheadWidth * aheadShare(between, this.#ahead), seconds(between), "center"],
      [left + width, seconds(this.#ahead), "right"],
    ];
    for (const [x, text, align] of marks) {
      pen.textAlign = align;
      pen.globalAlpha = 0.62;
      pen.fillText(text, x, AXIS / 2 - 1);
      pen.globalAlpha = 0.12;
      pen.fillRect(Math.round(x), AXIS - 3, 1, height - AXIS + 3);
    }
    pen.globalAlpha = 1;
  }

  #drawNow({ nowX }: Column, height: number): void {
    const pen = this.#context;
    pen.globalAlpha = 0.85;
    pen.fillStyle = this.#colours.ink;
    pen.fillRect(Math.round(nowX) - 0.75, AXIS - 4, 1.5, height - AXIS + 4);
    pen.globalAlpha = 1;
  }

  #drawLane(track: LaneTrack, place: Place, atMs: number): void {
    const entry = laneAt(track, atMs);
    if (entry === null) return;
    const pen = this.#context;
    const ended = track.endedMs !== null && atMs >= track.endedMs;
    const alpha = ended ? 0.35 : 1;
    if (track.key === this.#selected) this.#fill("ink", 0.09, 0, place.top - 1, this.#canvas.clientWidth, place.height + 2);
    this.#drawPast(track, place, atMs, alpha);
    if (!ended) this.#drawAhead(entry, place);
    this.#drawCuts(track, place, atMs);
    if (place.column.tall) this.#drawWords(track, entry, place, ended);
    pen.globalAlpha = 1;
  }

  #drawPast(track: LaneTrack, { column, top, height }: Place, atMs: number, alpha: number): void {
    const x = (timeMs: number): number => Math.max(column.left, column.nowX - (atMs - timeMs) * column.pastPerMs);
    const strip = column.tall ? 3 : height;
    for (const { fromMs, toMs, mode, dry } of stretches(track, atMs - PAST_MS, atMs)) {
      const quiet = mode === "listening" || mode === "connecting";
      const strength = column.tall || !quiet ? alpha : alpha * 0.55;
      this.#fill(dry ? "dry" : mode, strength, x(fromMs), top + height - strip, x(toMs) - x(fromMs), strip);
    }
    if (column.tall) this.#drawLeads(track, { column, top, height: height - strip }, atMs, alpha);
  }

  /** The leads of the past as an area above the strip of states, on the scale of the future. */
  #drawLeads(track: LaneTrack, { column, top, height }: Place, atMs: number, alpha: number): void {
    const pen = this.#context;
    const floor = top + height;
    const now = laneAt(track, atMs);
    const known = track.samples.filter((entry) => entry.atMs < atMs && entry.atMs > atMs - PAST_MS - 1_000);
    const points = now === null ? known : [...known, now];
    const y = (leadMs: number): number => floor - height * aheadShare(leadMs, this.#ahead);
    const x = (timeMs: number): number => Math.max(column.left, column.nowX - (atMs - timeMs) * column.pastPerMs);
    pen.globalAlpha = 0.34 * alpha;
    let mode: LaneMode | null = null;
    // One area for each run of a mode: areas side by side would show their seams.
    for (const [index, from] of points.entries()) {
      const to = points[index + 1];
      if (from.mode !== mode) {
        pen.beginPath();
        pen.moveTo(x(from.atMs), floor);
        pen.lineTo(x(from.atMs), y(from.leadMs));
        mode = from.mode;
      }
      if (to !== undefined) {
        const drained = Math.max(0, from.leadMs - (to.atMs - from.atMs));
        pen.lineTo(x(to.atMs), y(to.epoch === from.epoch ? to.leadMs : drained));
        if (to.epoch !== from.epoch) pen.lineTo(x(to.atMs), y(to.leadMs));
      }
      if (to === undefined || to.mode !== mode) {
        pen.lineTo(x(to?.atMs ?? from.atMs), floor);
        pen.fillStyle = this.#colours[mode];
        pen.fill();
      }
    }
  }

  #drawAhead(entry: LaneSample, { column, top, height }: Place): void {
    const { nowX, aheadWidth, tall } = column;
    const inset = tall ? Math.round(height * 0.18) : 0;
    const length = (ms: number): number => aheadWidth * aheadShare(ms, this.#ahead);
    const lead = length(entry.leadMs);
    const slack = length(Math.max(0, entry.slackMs ?? 0));
    this.#fill(entry.mode, 0.28, nowX + lead, top + inset, Math.max(0, slack - lead), height - 2 * inset);
    this.#fill(entry.mode, 0.95, nowX, top + inset, lead, height - 2 * inset);
    if (isDry(entry)) this.#fill("dry", 1, nowX, top, 5, height);
    if (entry.targetMs !== null) this.#fill("ink", 0.8, nowX + length(entry.targetMs) - 1, top, 1.5, height);
  }

  #drawCuts(track: LaneTrack, { column, top, height }: Place, atMs: number): void {
    for (const cutMs of track.cuts) {
      const passedMs = atMs - cutMs;
      if (passedMs < 0 || passedMs > PAST_MS) continue;
      this.#fill("cut", 1, column.nowX - passedMs * column.pastPerMs - 1, top - 1, 2.5, height + 2);
      if (passedMs < FLASH_MS && !this.#still.matches) {
        this.#fill("cut", 0.4 * (1 - passedMs / FLASH_MS), column.left, top, column.width, height);
      }
    }
  }

  #drawWords(track: LaneTrack, entry: LaneSample, { column, top, height }: Place, ended: boolean): void {
    const pen = this.#context;
    const middle = top + height / 2 + 0.5;
    pen.fillStyle = this.#colours.ink;
    pen.globalAlpha = ended ? 0.45 : 0.9;
    pen.textAlign = "left";
    const name = `#${track.key}`;
    pen.fillText(column.wide ? `${name}  ${ended ? "ended" : entry.mode}` : name, column.left - (column.wide ? 106 : 31), middle);
    if (!column.wide || ended) return;
    pen.textAlign = "right";
    const target = entry.targetMs === null ? "" : ` / ${Math.round(entry.targetMs)}`;
    pen.fillText(`${Math.round(entry.leadMs)}${target}\u00a0ms`, column.left + column.width + 108, middle);
  }

  #fill(colour: Colour, alpha: number, x: number, y: number, width: number, height: number): void {
    if (width <= 0) return;
    this.#context.globalAlpha = alpha;
    this.#context.fillStyle = this.#colours[colour];
    this.#context.fillRect(x, y, width, height);
  }

  /** Write the selected lane's values, or how the picture is read. */
  #read(state: DashboardState, atMs: number): void {
    const track = this.#selected === null ? undefined : state.lanes.get(this.#selected);
    const entry = track === undefined ? null : laneAt(track, atMs);
    const text = track === undefined || entry === null ? "lead ahead of the listener; tick: target; pale: slack" : laneInWords(track, entry);
    if (this.#reading.textContent !== text) this.#reading.textContent = text;
  }
}

function laneInWords(track: LaneTrack, entry: LaneSample): string {
  const target = entry.targetMs === null ? "no target" : `target ${milliseconds(entry.targetMs)}`;
  return [
    `#${track.key} ${entry.mode}`,
    track.transport,
    `lead ${milliseconds(entry.leadMs)}`,
    target,
    `slack ${milliseconds(entry.slackMs)}`,
    `cuts ${entry.epoch}`,
    age((entry.atMs - track.bornMs) / 1_000),
  ].join(" · ");
}

/** The stylesheet's colours, as the legend's keys have them in this scheme. */
function readColours(canvas: HTMLElement): Colours {
  const of = (name: string): string => {
    const key = document.querySelector(`.key-${name}`);
    if (key === null) throw new Error(`the legend has no ${name}`);
    return getComputedStyle(key).backgroundColor;
  };
  const modes = Object.fromEntries(MODES.map((mode) => [mode, of(mode)])) as Record<LaneMode, string>;
  return { ...modes, dry: of("dry"), cut: of("cut"), ink: getComputedStyle(canvas).color };
}
