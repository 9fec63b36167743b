/**
 * The orb: a body that moves with what is heard and a crown of bars that is the spectrum of the side that speaks. Drawn
 * from real audio only; at rest it breathes, unless the user prefers reduced motion.
 */
import type { Phase, Side } from "../sdk/index.ts";
import { blend, crownColour, css, orbColours, type OrbColours } from "./palette.ts";

const BANDS = 24;
/** The spectrum is mirrored on both halves, and each half on itself, so the crown closes without a seam. */
const BARS = BANDS * 4;
const FRAME_MS = 1000 / 30;
/** Between conversations it only breathes; a page that waits should cost next to nothing. */
const IDLE_FRAME_MS = 1000 / 12;
const SETTLE_MS = 1500;
const PIXEL_RATIO_MAX = 2;
const WHITE = [255, 255, 255] as const;

export interface OrbSource {
  phase(): Phase;
  /** Whose spectrum to show. */
  side(): Side;
  spectrum(side: Side, bands: Float32Array): void;
}

export class Orb {
  readonly #canvas: HTMLCanvasElement;
  readonly #context: CanvasRenderingContext2D;
  readonly #source: OrbSource;
  readonly #dark = matchMedia("(prefers-color-scheme: dark)");
  readonly #still = matchMedia("(prefers-reduced-motion: reduce)");
  readonly #bands = new Float32Array(BANDS);
  readonly #shown = new Float32Array(BANDS);
  #colours: OrbColours;
  #level = 0;
  #lastMs = -Infinity;
  #turn = 0;
  #busyMs = -Infinity;

  constructor(canvas: HTMLCanvasElement, source: OrbSource) {
    const context = canvas.getContext("2d");
    if (context === null) throw new Error("no 2D canvas");
    this.#canvas = canvas;
    this.#context = context;
    this.#source = source;
    this.#colours = orbColours("idle", this.#dark.matches);
    new ResizeObserver(() => this.#resize()).observe(canvas);
    this.#resize();
    requestAnimationFrame((ms) => this.#frame(ms));
  }

  #resize(): void {
    const ratio = Math.min(PIXEL_RATIO_MAX, devicePixelRatio);
    this.#canvas.width = Math.round(this.#canvas.clientWidth * ratio);
    this.#canvas.height = Math.round(this.#canvas.clientHeight * ratio);
    this.#lastMs = -Infinity;
  }

  #frame(ms: number): void {
    requestAnimationFrame((next) => this.#frame(next));
    const passedMs = ms - this.#lastMs;
    // Colours and levels may still be on their way to rest.
    const resting = this.#source.phase() === "idle" && ms - this.#busyMs > SETTLE_MS;
    if (this.#source.phase() !== "idle") this.#busyMs = ms;
    if (passedMs < (resting ? IDLE_FRAME_MS : FRAME_MS) - 4) return;
    this.#lastMs = ms;
    this.#follow(Number.isFinite(passedMs) ? passedMs : FRAME_MS);
    this.#draw(ms);
  }

  /** Move what is shown towards what is: colours within half a second, levels fast up and slow down. */
  #follow(passedMs: number): void {
    const phase = this.#source.phase();
    const target = orbColours(phase, this.#dark.matches);
    const share = 1 - Math.exp(-passedMs / 140);
    this.#colours = {
      light: blend(this.#colours.light, target.light, share),
      deep: blend(this.#colours.deep, target.deep, share),
    };
    this.#source.spectrum(this.#source.side(), this.#bands);
    let loudest = 0;
    for (let band = 0; band < BANDS; band += 1) {
      const now = this.#bands[band] ?? 0;
      const was = this.#shown[band] ?? 0;
      this.#shown[band] = now > was ? was + (now - was) * 0.6 : was + (now - was) * 0.16;
      loudest += now;
    }
    const level = Math.min(1, (loudest / BANDS) * 1.9);
    this.#level += (level - this.#level) * (level > this.#level ? 0.5 : 0.12);
    const speed = phase === "thinking" || phase === "connecting" ? 1.6 : 0.25 + this.#level;
    if (!this.#still.matches) this.#turn += (passedMs / 1000) * speed;
  }

  #draw(ms: number): void {
    const { width, height } = this.#canvas;
    const context = this.#context;
    context.clearRect(0, 0, width, height);
    context.save();
    context.translate(width / 2, height / 2);
    const size = Math.min(width, height) / 2;
    const breath = this.#still.matches ? 0 : Math.sin(ms / 1900) * 0.012;
    const radius = size * (0.5 + breath + this.#level * 0.055);
    this.#drawHalo(size, radius);
    this.#drawCrown(size, radius);
    this.#drawBody(radius);
    context.restore();
  }

  #drawHalo(size: number, radius: number): void {
    const halo = this.#context.createRadialGradient(0, 0, radius * 0.7, 0, 0, size);
    const strength = this.#source.phase() === "idle" ? 0.1 : 0.2 + this.#level * 0.2;
    // Falls off as a square, so that no edge shows.
    for (const share of [0, 0.2, 0.4, 0.6, 0.8]) halo.addColorStop(share, css(this.#colours.deep, strength * (1 - share) ** 2));
    halo.addColorStop(1, css(this.#colours.deep, 0));
    this.#context.fillStyle = halo;
    this.#context.fillRect(-size, -size, size * 2, size * 2);
  }

  #drawCrown(size: number, radius: number): void {
    const context = this.#context;
    const gap = size * 0.085;
    const reach = size - radius - gap - size * 0.04;
    const colour = crownColour(this.#colours, this.#dark.matches);
    context.lineCap = "round";
    context.lineWidth = Math.max(2, size * 0.0135);
    for (let bar = 0; bar < BARS; bar += 1) {
      const along = bar % (BANDS * 2);
      const band = along < BANDS ? along : BANDS * 2 - 1 - along;
      const loud = Math.max(0, this.#smoothed(band) - 0.12);
      const angle = ((bar + 0.5) / BARS) * Math.PI * 2 - Math.PI / 2;
      const from = radius + gap;
      const to = from + 0.5 + reach * Math.min(1, loud * 1.15);
      context.strokeStyle = css(colour, 0.3 + Math.min(0.6, loud * 1.6));
      context.beginPath();
      context.moveTo(Math.cos(angle) * from, Math.sin(angle) * from);
      context.lineTo(Math.cos(angle) * to, Math.sin(angle) * to);
      context.stroke();
    }
  }

  /** A band with its neighbours, so that the crown is a curve and not a comb. */
  #smoothed(band: number): number {
    const own = this.#shown[band] ?? 0;
    return own * 0.5 + (this.#shown[band - 1] ?? own) * 0.25 + (this.#shown[band + 1] ?? own) * 0.25;
  }

  #drawBody(radius: number): void {
    const context = this.#context;
    const { light, deep } = this.#colours;
    context.beginPath();
    context.arc(0, 0, radius, 0, Math.PI * 2);
    context.save();
    context.clip();
    const body = context.createRadialGradient(-radius * 0.4, -radius * 0.5, radius * 0.1, 0, 0, radius * 1.15);
    body.addColorStop(0, css(light));
    body.addColorStop(1, css(deep));
    context.fillStyle = body;
    context.fillRect(-radius - 2, -radius - 2, radius * 2 + 4, radius * 2 + 4);
    // Three drifting lights under the surface; they wander further the louder it is.
    for (let index = 0; index < 3; index += 1) {
      const angle = this.#turn * (0.7 + index * 0.35) + index * 2.1;
      const away = radius * (0.34 + 0.22 * this.#level);
      const x = Math.cos(angle) * away;
      const y = Math.sin(angle * 1.3) * away;
      const glow = context.createRadialGradient(x, y, 0, x, y, radius * (0.62 + this.#level * 0.25));
      const tint = index === 1 ? deep : light;
      glow.addColorStop(0, css(tint, 0.5 + this.#level * 0.3));
      glow.addColorStop(1, css(tint, 0));
      context.fillStyle = glow;
      context.fillRect(-radius - 2, -radius - 2, radius * 2 + 4, radius * 2 + 4);
    }
    const sheen = context.createRadialGradient(-radius * 0.35, -radius * 0.55, 0, -radius * 0.35, -radius * 0.55, radius);
    sheen.addColorStop(0, css(WHITE, this.#dark.matches ? 0.2 : 0.38));
    sheen.addColorStop(1, css(WHITE, 0));
    context.fillStyle = sheen;
    context.fillRect(-radius - 2, -radius - 2, radius * 2 + 4, radius * 2 + 4);
    context.restore();
  }
}
