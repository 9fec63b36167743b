/** Colours of the orb. The canvas blends them from state to state, so they are numbers here and not in the stylesheet. */
import type { Phase } from "../sdk/index.ts";

export type Rgb = readonly [number, number, number];

export interface OrbColours {
  /** The lit side and the shaded side of the body. */
  readonly light: Rgb;
  readonly deep: Rgb;
}

/** The crown stands on the page's ground, so it takes the side that stands out from it. */
export function crownColour(colours: OrbColours, dark: boolean): Rgb {
  return dark ? blend(colours.light, colours.deep, 0.25) : colours.deep;
}

const LIGHT: Readonly<Record<Phase, OrbColours>> = {
  idle: { light: [214, 217, 226], deep: [148, 154, 172] },
  connecting: { light: [206, 212, 232], deep: [122, 132, 170] },
  reconnecting: { light: [206, 212, 232], deep: [122, 132, 170] },
  listening: { light: [134, 231, 214], deep: [13, 148, 136] },
  thinking: { light: [160, 196, 255], deep: [63, 99, 214] },
  speaking: { light: [196, 181, 253], deep: [101, 72, 214] },
  interrupted: { light: [254, 215, 150], deep: [217, 119, 36] },
};

const DARK: Readonly<Record<Phase, OrbColours>> = {
  idle: { light: [96, 103, 122], deep: [38, 42, 54] },
  connecting: { light: [112, 122, 156], deep: [42, 48, 74] },
  reconnecting: { light: [112, 122, 156], deep: [42, 48, 74] },
  listening: { light: [94, 234, 212], deep: [10, 92, 88] },
  thinking: { light: [125, 170, 255], deep: [30, 52, 138] },
  speaking: { light: [183, 163, 255], deep: [62, 38, 156] },
  interrupted: { light: [253, 196, 110], deep: [146, 72, 14] },
};

export function orbColours(phase: Phase, dark: boolean): OrbColours {
  return (dark ? DARK : LIGHT)[phase];
}

/** A step from one colour towards another; `share` 0 stays, 1 arrives. */
export function blend(from: Rgb, to: Rgb, share: number): Rgb {
  const mixed = (a: number, b: number): number => a + (b - a) * share;
  return [mixed(from[0], to[0]), mixed(from[1], to[1]), mixed(from[2], to[2])];
}

export function css([red, green, blue]: Rgb, alpha = 1): string {
  return `rgb(${Math.round(red)} ${Math.round(green)} ${Math.round(blue)} / ${alpha})`;
}
