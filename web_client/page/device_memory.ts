/**
 * The devices that the user chose, kept in the browser's local storage across reloads. What is kept are the ids by which the
 * browser names devices to this site alone. A device that has gone is forgotten.
 */
const STORED_AS = "duplex.devices";

export type Kind = MediaDeviceInfo["kind"];
/** Ids of devices; a kind that is absent, or has an empty id, is the system's choice. */
export type Chosen = Readonly<Partial<Record<Kind, string>>>;

const KINDS: readonly Kind[] = ["audioinput", "audiooutput", "videoinput"];

/** What was chosen. Where storage is forbidden it lives in memory: then a reload forgets it. */
export class DeviceMemory {
  #chosen = readChosen(read() ?? "");

  get chosen(): Chosen {
    return this.#chosen;
  }

  keep(chosen: Chosen): void {
    this.#chosen = chosen;
    write(JSON.stringify(chosen));
  }
}

/** A choice out of what was stored of it; empty if it is something else. */
export function readChosen(json: string): Chosen {
  let stored: unknown;
  try {
    stored = JSON.parse(json);
  } catch {
    // Nothing was stored.
    return {};
  }
  if (typeof stored !== "object" || stored === null) return {};
  const fields = stored as Readonly<Record<string, unknown>>;
  return Object.fromEntries(KINDS.flatMap((kind) => (typeof fields[kind] === "string" ? [[kind, fields[kind]]] : [])));
}

/**
 * The choice without devices that are there no longer; the same object where none has gone.
 *
 * Before the page was allowed to use devices of a kind, browsers list them without ids: then nothing is known to have gone.
 */
export function withoutGone(chosen: Chosen, present: readonly Pick<MediaDeviceInfo, "kind" | "deviceId">[]): Chosen {
  const named = present.some(({ deviceId }) => deviceId !== "");
  const gone = KINDS.filter((kind) => {
    const ids = present.flatMap((device) => (device.kind === kind ? [device.deviceId] : []));
    const deviceId = chosen[kind] ?? "";
    return named && deviceId !== "" && !ids.includes(deviceId) && !ids.includes("");
  });
  return gone.length === 0 ? chosen : Object.fromEntries(Object.entries(chosen).filter(([kind]) => !gone.includes(kind as Kind)));
}

function read(): string | null {
  try {
    return localStorage.getItem(STORED_AS);
  } catch (error) {
    if (error instanceof DOMException) return null;
    throw error;
  }
}

function write(text: string): void {
  try {
    localStorage.setItem(STORED_AS, text);
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
  }
}
