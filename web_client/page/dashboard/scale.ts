/** Arithmetic of the charts: from values to pixels, round ticks, and paths. Nothing here touches the page. */

export type Scale = (value: number) => number;

/** A straight line from `[from0, from1]` to `[to0, to1]`; everything falls on `to0` where the domain is empty. */
export function linear(from0: number, from1: number, to0: number, to1: number): Scale {
  const slope = from1 === from0 ? 0 : (to1 - to0) / (from1 - from0);
  return (value) => to0 + (value - from0) * slope;
}

/** The smallest of 1, 2, 5 × 10ⁿ that is at least `value` (> 0). */
export function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  for (const factor of [1, 2, 5]) {
    // The tolerance takes 0.30000000000000004 for 0.3.
    if (factor * power >= value * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

export interface Ticks {
  /** End of the axis: a multiple of the step, at least the highest value. */
  readonly top: number;
  /** From 0 to `top`. */
  readonly values: readonly number[];
}

/**
 * Round ticks from 0.
 *
 * @param highest of the values to show, ≥ 0; the axis is never shorter than `topMin`.
 * @param steps about how many.
 */
export function ticks(highest: number, topMin: number, steps: number): Ticks {
  const wanted = Math.max(highest, topMin);
  const step = roundUp(wanted / steps);
  const count = Math.max(1, Math.ceil((wanted / step) * (1 - 1e-9)));
  return { top: count * step, values: Array.from({ length: count + 1 }, (_, index) => index * step) };
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

const at = ({ x, y }: Point): string => `${x.toFixed(1)} ${y.toFixed(1)}`;

/** Neighbours without a gap between them; null is a gap. */
export function runs<T>(values: readonly (T | null)[]): readonly (readonly T[])[] {
  const found: T[][] = [];
  let open: T[] | null = null;
  for (const value of values) {
    if (value === null) {
      open = null;
    } else if (open === null) {
      open = [value];
      found.push(open);
    } else {
      open.push(value);
    }
  }
  return found;
}

/** An SVG path along the points; null breaks it, and a point between two gaps becomes a dash that can be seen. */
export function linePath(points: readonly (Point | null)[]): string {
  return runs(points)
    .map((run) => {
      const [first] = run;
      if (first === undefined) return "";
      if (run.length === 1) return `M${at({ x: first.x - 1.5, y: first.y })}L${at({ x: first.x + 1.5, y: first.y })}`;
      return `M${run.map(at).join("L")}`;
    })
    .join("");
}

/** The area between two lines, where both are known. */
export function bandPath(points: readonly ({ readonly x: number; readonly low: number; readonly high: number } | null)[]): string {
  return runs(points)
    .filter((run) => run.length > 1)
    .map((run) => {
      const upper = run.map(({ x, high }) => at({ x, y: high }));
      const lower = run.map(({ x, low }) => at({ x, y: low })).reverse();
      return `M${[...upper, ...lower].join("L")}Z`;
    })
    .join("");
}
