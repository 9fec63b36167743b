/** From the wire to a `Snapshot`, or null where it is something else. */
import type { Snapshot } from "./snapshot.ts";

const NUMBERS = ["seq", "at_s", "uptime_s", "window_s", "bucket_s", "invariants_broken", "stale_packets"] as const;
const OBJECTS = ["model", "sessions", "ttfas", "underruns", "barge_in", "admission", "loop"] as const;
const LISTS = ["history", "lanes", "stages"] as const;

/** Only the outline is checked: server and page are built together, and a page that is older than its server says so. */
export function decodeSnapshot(text: string): Snapshot | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
  return isSnapshot(value) ? value : null;
}

function isSnapshot(value: unknown): value is Snapshot {
  return (
    isObject(value) &&
    typeof value["version"] === "string" &&
    NUMBERS.every((name) => typeof value[name] === "number") &&
    OBJECTS.every((name) => isObject(value[name])) &&
    LISTS.every((name) => Array.isArray(value[name]))
  );
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}
