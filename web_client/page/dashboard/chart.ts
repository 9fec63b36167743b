/** A small chart over time in SVG: lines and bands on one axis, strips of bars below, and a cursor that reads values. */
import { bandPath, linear, linePath, type Scale, ticks } from "./scale.ts";

export interface LineData {
  readonly className: string;
  readonly points: readonly { readonly at_s: number; readonly value: number | null }[];
}

export interface BandData {
  readonly className: string;
  readonly points: readonly { readonly at_s: number; readonly low: number | null; readonly high: number | null }[];
}

/** Bars from one moment to the next. */
export interface StripData {
  readonly label: string;
  readonly className: string;
  readonly step_s: number;
  readonly points: readonly { readonly at_s: number; readonly value: number }[];
}

export interface ChartData {
  /** Unix seconds. */
  readonly from_s: number;
  readonly to_s: number;
  readonly bands: readonly BandData[];
  readonly lines: readonly LineData[];
  readonly strips: readonly StripData[];
  /** What the cursor says, by moment. */
  readonly readings: readonly { readonly at_s: number; readonly text: string }[];
  /** What is said without a cursor. */
  readonly resting: string;
}

export interface ChartOptions {
  readonly label: string;
  /** The vertical axis is never shorter, in the values' unit. */
  readonly topMin: number;
  readonly steps: number;
  readonly format: (value: number) => string;
  /** Where the cursor's reading is written; null: there is none. */
  readonly reading: HTMLElement | null;
}

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 62;
const RIGHT = 28;
const TOP = 8;
const BOTTOM = 18;
const STRIP = 14;
const STRIP_GAP = 5;
const TEXT_DROP = 4;

type Attributes = Readonly<Record<string, string | number>>;

export class TimeChart {
  readonly #frame: HTMLElement;
  readonly #svg = node("svg", {}) as SVGSVGElement;
  readonly #options: ChartOptions;
  #data: ChartData | null = null;
  /** Unix seconds of the cursor; null without one. */
  #cursor_s: number | null = null;

  constructor(frame: HTMLElement, options: ChartOptions) {
    this.#frame = frame;
    this.#options = options;
    this.#svg.setAttribute("role", "img");
    this.#svg.setAttribute("aria-label", options.label);
    frame.append(this.#svg);
    new ResizeObserver(() => this.#draw()).observe(frame);
    if (options.reading === null) return;
    frame.tabIndex = 0;
    frame.setAttribute("role", "group");
    frame.setAttribute("aria-label", `${options.label}; arrow keys read the values`);
    frame.addEventListener("pointermove", (event) => this.#point(event.clientX));
    frame.addEventListener("pointerleave", () => this.#move(null));
    frame.addEventListener("blur", () => this.#move(null));
    frame.addEventListener("keydown", (event) => this.#key(event));
  }

  show(data: ChartData): void {
    this.#data = data;
    this.#draw();
  }

  #point(clientX: number): void {
    if (this.#data === null) return;
    const box = this.#frame.getBoundingClientRect();
    const { from_s, to_s } = this.#data;
    this.#move(linear(LEFT, box.width - RIGHT, from_s, to_s)(clientX - box.left));
  }

  #key(event: KeyboardEvent): void {
    const moments = this.#data?.readings.map(({ at_s }) => at_s) ?? [];
    const at = moments.findLastIndex((moment) => moment <= (this.#cursor_s ?? Infinity));
    const to = { ArrowLeft: this.#cursor_s === null ? at : at - 1, ArrowRight: at + 1, Home: 0, End: moments.length - 1 }[event.key];
    if (event.key === "Escape") this.#move(null);
    if (to === undefined || moments.length === 0) return;
    event.preventDefault();
    this.#move(moments[Math.min(moments.length - 1, Math.max(0, to))] ?? null);
  }

  #move(cursor_s: number | null): void {
    if (cursor_s === this.#cursor_s) return;
    this.#cursor_s = cursor_s;
    this.#draw();
  }

  #draw(): void {
    const data = this.#data;
    const { clientWidth: width, clientHeight: height } = this.#frame;
    if (data === null || width === 0 || height === 0) return;
    const floor = height - BOTTOM - data.strips.length * (STRIP + STRIP_GAP);
    const x = linear(data.from_s, data.to_s, LEFT, width - RIGHT);
    const values = [
      ...data.lines.flatMap(({ points }) => points.map(({ value }) => value ?? 0)),
      ...data.bands.flatMap(({ points }) => points.map(({ high }) => high ?? 0)),
    ];
    const axis = ticks(Math.max(0, ...values), this.#options.topMin, this.#options.steps);
    const y = linear(0, axis.top, floor, TOP);
    this.#svg.replaceChildren(
      ...this.#grid(axis.values, y, width),
      ...timeLabels(data, x, height),
      ...data.strips.flatMap((strip, index) => stripNodes(strip, x, floor + STRIP_GAP + index * (STRIP + STRIP_GAP), width)),
      ...data.bands.map((band) => bandNode(band, x, y)),
      ...data.lines.map((line) => lineNode(line, x, y)),
      ...this.#cursorNodes(data, x, height),
    );
  }

  #grid(values: readonly number[], y: Scale, width: number): readonly SVGElement[] {
    return values.flatMap((value) => [
      node("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: crisp(y(value)), y2: crisp(y(value)) }),
      label(this.#options.format(value), LEFT - 8, y(value) + TEXT_DROP, "end"),
    ]);
  }

  #cursorNodes(data: ChartData, x: Scale, height: number): readonly SVGElement[] {
    const { reading } = this.#options;
    if (reading === null) return [];
    const cursor_s = this.#cursor_s;
    const read = cursor_s === null ? undefined : data.readings.findLast(({ at_s }) => at_s <= cursor_s);
    reading.textContent = read?.text ?? data.resting;
    if (read === undefined || cursor_s === null) return [];
    const at = crisp(x(cursor_s));
    return [node("line", { class: "cursor", x1: at, x2: at, y1: TOP, y2: height - BOTTOM })];
  }
}

function bandNode({ className, points }: BandData, x: Scale, y: Scale): SVGElement {
  const edges = points.map(({ at_s, low, high }) =>
    low === null || high === null ? null : { x: x(at_s), low: y(low), high: y(high) },
  );
  return node("path", { class: className, d: bandPath(edges) });
}

function lineNode({ className, points }: LineData, x: Scale, y: Scale): SVGElement {
  const places = points.map(({ at_s, value }) => (value === null ? null : { x: x(at_s), y: y(value) }));
  return node("path", { class: className, d: linePath(places) });
}

/** A strip has its own axis, from 0 to its highest value, which is written at its end. */
function stripNodes(strip: StripData, x: Scale, top: number, width: number): readonly SVGElement[] {
  const most = Math.max(0, ...strip.points.map(({ value }) => value));
  const scale = linear(0, Math.max(1, most), 0, STRIP);
  const floor = top + STRIP;
  const bars = strip.points
    .filter(({ value }) => value > 0)
    .map(({ at_s, value }) => {
      const from = Math.max(LEFT, x(at_s));
      const to = Math.max(from + 1, x(at_s + strip.step_s) - 0.5);
      return `M${from.toFixed(1)} ${floor}H${to.toFixed(1)}V${(floor - scale(value)).toFixed(1)}H${from.toFixed(1)}Z`;
    });
  return [
    node("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: crisp(floor), y2: crisp(floor) }),
    label(strip.label, LEFT - 8, floor - 2, "end"),
    label(String(most), width - RIGHT + 5, floor - 2, "start"),
    node("path", { class: `bars ${strip.className}`, d: bars.join("") }),
  ];
}

function timeLabels({ from_s, to_s }: ChartData, x: Scale, height: number): readonly SVGElement[] {
  const minutes = Math.round((to_s - from_s) / 60);
  const y = height - 4;
  return [
    label(`−${minutes}\u00a0min`, x(from_s), y, "start"),
    label(`−${minutes / 2}\u00a0min`, x((from_s + to_s) / 2), y, "middle"),
    label("now", x(to_s), y, "end"),
  ];
}

function label(text: string, x: number, y: number, anchor: "start" | "middle" | "end"): SVGElement {
  const element = node("text", { x, y, "text-anchor": anchor });
  element.textContent = text;
  return element;
}

/** A thin line lies on one row of pixels. */
function crisp(value: number): number {
  return Math.round(value) + 0.5;
}

function node(tag: string, attributes: Attributes): SVGElement {
  const element = document.createElementNS(SVG, tag) as SVGElement;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  return element;
}
