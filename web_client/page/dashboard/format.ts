/** Numbers as the dashboard writes them: a unit on each, three figures at most, `–` for what was not measured. */

export const NOTHING = "–";
/** Keeps a number and its unit on one line. */
const GAP = "\u00a0";

/** A time in seconds, as `3.2 ms`, `412 ms`, `1.24 s` or `12.4 s`. */
export function duration(seconds: number | null): string {
  if (seconds === null) return NOTHING;
  const ms = seconds * 1000;
  if (Math.abs(ms) < 0.005) return `0${GAP}ms`;
  if (Math.abs(ms) < 9.95) return `${ms.toFixed(Math.abs(ms) < 0.995 ? 2 : 1)}${GAP}ms`;
  if (Math.abs(ms) < 999.5) return `${Math.round(ms)}${GAP}ms`;
  return `${seconds.toFixed(Math.abs(seconds) < 9.995 ? 2 : 1)}${GAP}s`;
}

/** Media in whole milliseconds, as lanes count it. */
export function milliseconds(ms: number | null): string {
  return ms === null ? NOTHING : `${Math.round(ms)}${GAP}ms`;
}

/** How long something has lasted: `42 s`, `3 min 05 s`, `2 h 07 min`, `4 d 03 h`. */
export function age(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const two = (value: number): string => String(value).padStart(2, "0");
  if (whole < 60) return `${whole}${GAP}s`;
  if (whole < 3_600) return `${Math.floor(whole / 60)}${GAP}min ${two(whole % 60)}${GAP}s`;
  if (whole < 86_400) return `${Math.floor(whole / 3_600)}${GAP}h ${two(Math.floor((whole % 3_600) / 60))}${GAP}min`;
  return `${Math.floor(whole / 86_400)}${GAP}d ${two(Math.floor((whole % 86_400) / 3_600))}${GAP}h`;
}

/** A length that was chosen: as `age`, without a part that is zero. */
export function wholeAge(seconds: number): string {
  return age(seconds).replace(/ 00\u00a0(s|min|h)$/, "");
}

/** A share 0..1 as per cent. */
export function share(value: number): string {
  return `${Math.round(value * 100)}${GAP}%`;
}

/** A count, or a load in a limit's own unit; thousands are set apart. */
export function amount(value: number | null): string {
  if (value === null) return NOTHING;
  const digits = Number.isInteger(value) || Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  const [whole = "", part] = value.toFixed(digits).split(".");
  const spaced = whole.replace(/\B(?=(\d{3})+$)/g, "\u202f");
  return part === undefined ? spaced : `${spaced}.${part}`;
}

/** `1 gap`, `2 gaps`. */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${amount(count)}${GAP}${count === 1 ? one : many}`;
}

/** Wall time of day, 24 hours. */
export function clock(unixSeconds: number): string {
  return new Date(unixSeconds * 1000).toLocaleTimeString("en-GB");
}
