/** Draws the session's timeline as it happens, with both sides' levels. A canvas; nothing is drawn between conversations. */
import type { MeterReport, ServerEvent, Side } from "../sdk/index.ts";
import { byId } from "./dom.ts";
import { Levels, STEP_MS } from "./levels.ts";
import { follow, NO_TIMELINE, STRIP_MS, type StripEvent, type StripRow, type Timeline } from "./timeline.ts";

const FRAME_MS = 1000 / 15;
const PIXEL_RATIO_MAX = 2;
/** After an end the picture still moves for this long, so that the end is seen; then it stands. */
const AFTER_MS = 1_500;
/** The place of each row from the top, and its height, as shares of the canvas. */
const LANES: Readonly<Record<StripRow, { readonly top: number; readonly height: number }>> = {
  heard: { top: 0, height: 1 / 3 },
  made: { top: 1 / 3, height: 1 / 3 },
  sent: { top: 1 / 3, height: 1 / 3 },
  played: { top: 2 / 3, height: 1 / 3 },
};
const DRAWN: readonly StripRow[] = ["heard", "made", "sent", "played"];

export class Strip {
  readonly #canvas = byId("strip-canvas", HTMLCanvasElement);
  readonly #context: CanvasRenderingContext2D;
  readonly #meters: Readonly<Record<Side, HTMLElement>> = {
    user: byId("level-user", HTMLDivElement),
    assistant: byId("level-assistant", HTMLDivElement),
  };
  readonly #levels: Readonly<Record<Side, Levels>> = { user: new Levels(STRIP_MS), assistant: new Levels(STRIP_MS) };
  #timeline: Timeline = NO_TIMELINE;
  #live = false;
  #endedAt = -Infinity;
  #drawnAt = -Infinity;
  #frame: number | null = null;

  constructor() {
    const context = this.#canvas.getContext("2d");
    if (context === null) throw new Error("no 2D canvas");
    this.#context = context;
    new ResizeObserver(() => this.#resize()).observe(this.#canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw(Date.now()));
    this.#resize();
  }

  /** What has been drawn from, for tests. */
  get timeline(): Timeline {
    return this.#timeline;
  }

  /** A conversation is up, or not. */
  show(live: boolean): void {
    if (live === this.#live) return;
    this.#live = live;
    if (!live) {
      this.#endedAt = Date.now();
      this.#follow(this.#endedAt, { type: "ended" });
      for (const side of ["user", "assistant"] as const) this.#showLevel(side, 0);
    }
    this.#frame ??= requestAnimationFrame(() => this.#next());
  }

  event(event: ServerEvent, at: number): void {
    this.#follow(at, event);
  }

  level(side: Side, report: MeterReport): void {
    if (!this.#live) return;
    this.#levels[side].push(report.at, report.rms);
    if (side === "assistant" && report.sound !== null) this.#follow(report.at, { type: "played", on: report.sound === "on" });
  }

  #follow(at: number, event: StripEvent): void {
    this.#timeline = follow(this.#timeline, at, event);
  }

  #resize(): void {
    const ratio = Math.min(PIXEL_RATIO_MAX, devicePixelRatio);
    this.#canvas.width = Math.round(this.#canvas.clientWidth * ratio);
    this.#canvas.height = Math.round(this.#canvas.clientHeight * ratio);
    this.#draw(Date.now());
  }

  #next(): void {
    const now = Date.now();
    if (now - this.#drawnAt >= FRAME_MS - 4) {
      this.#drawnAt = now;
      this.#draw(now);
      for (const side of ["user", "assistant"] as const) this.#showLevel(side, this.#recentLevel(side, now));
    }
    const goesOn = this.#live || now - this.#endedAt < AFTER_MS;
    this.#frame = goesOn ? requestAnimationFrame(() => this.#next()) : null;
  }

  /** The newest whole step: the running one may just have begun. */
  #recentLevel(side: Side, now: number): number {
    return this.#live ? Math.max(this.#levels[side].at(now), this.#levels[side].at(now - STEP_MS)) : 0;
  }

  #showLevel(side: Side, share: number): void {
    this.#meters[side].style.setProperty("--level", share.toFixed(2));
  }

  #draw(now: number): void {
    const { width, height } = this.#canvas;
    const context = this.#context;
    const style = getComputedStyle(this.#canvas);
    const colour = (name: string): string => style.getPropertyValue(name);
    const x = (at: number): number => width * (1 - (now - at) / STRIP_MS);
    context.clearRect(0, 0, width, height);
    this.#drawGrid(now, x, colour("--strip-line"));
    for (const row of DRAWN) {
      const { top, height: share } = LANES[row];
      context.fillStyle = colour(`--strip-${row}`);
      for (const span of this.#timeline.spans) {
        if (span.row !== row) continue;
        const from = Math.max(0, x(span.from));
        const length = Math.max(2, x(span.to ?? now) - from);
        context.beginPath();
        context.roundRect(from, (top + share * 0.12) * height, length, share * 0.76 * height, height * 0.03);
        context.fill();
      }
    }
    this.#drawLevels(now, x, "user", LANES.heard, colour("--strip-user"));
    this.#drawLevels(now, x, "assistant", LANES.played, colour("--strip-assistant"));
    context.fillStyle = colour("--strip-cut");
    for (const cut of this.#timeline.cuts) context.fillRect(x(cut) - 1, height / 3, Math.max(2, height * 0.02), (height * 2) / 3);
  }

  #drawGrid(now: number, x: (at: number) => number, colour: string): void {
    const { width, height } = this.#canvas;
    this.#context.fillStyle = colour;
    for (const lane of [1, 2]) this.#context.fillRect(0, Math.round((height * lane) / 3), width, 1);
    const every = 5_000;
    for (let at = Math.ceil((now - STRIP_MS) / every) * every; at <= now; at += every) {
      this.#context.fillRect(Math.round(x(at)), 0, 1, height);
    }
  }

  #drawLevels(
    now: number,
    x: (at: number) => number,
    side: Side,
    lane: { readonly top: number; readonly height: number },
    colour: string,
  ): void {
    const { width, height } = this.#canvas;
    const middle = (lane.top + lane.height / 2) * height;
    const wide = Math.max(1, (width * STEP_MS) / STRIP_MS - 1);
    this.#context.fillStyle = colour;
    const first = Math.ceil((now - STRIP_MS) / STEP_MS) * STEP_MS;
    for (let at = first; at < now; at += STEP_MS) {
      const tall = this.#levels[side].at(at) * lane.height * 0.7 * height;
      if (tall > 1) this.#context.fillRect(x(at), middle - tall / 2, wide, tall);
    }
  }
}
