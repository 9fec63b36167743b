/** What the server says of itself and its model: `GET /v1/duplex/info`. */

export interface ServerInfo {
  readonly model: string;
  readonly testDouble: boolean;
  /** What a user should know of this model; empty if nothing. */
  readonly notice: string;
  readonly sessionsMax: number | null;
  /** Whether it is told what text the camera shows; true where the server does not say. */
  readonly readsCamera: boolean;
}

/**
 * Read it; null where the server is away or has no such page, "access" where it wants another token. The page works
 * without it.
 */
export async function fetchInfo(url: string, token: string | null): Promise<ServerInfo | "access" | null> {
  try {
    const response = await fetch(url, token === null ? {} : { headers: { Authorization: `Bearer ${token}` } });
    if (response.status === 401) return "access";
    return response.ok ? readInfo(await response.json()) : null;
  } catch (error) {
    if (error instanceof TypeError || error instanceof SyntaxError) return null;
    throw error;
  }
}

/** The parts of the answer that the page shows; null if it is something else. */
export function readInfo(answer: unknown): ServerInfo | null {
  const model = isObject(answer) ? answer["model"] : undefined;
  if (!isObject(model) || typeof model["name"] !== "string") return null;
  return {
    model: model["name"],
    testDouble: model["test_double"] === true,
    notice: typeof model["notice"] === "string" ? model["notice"] : "",
    sessionsMax: typeof model["sessions_max"] === "number" ? model["sessions_max"] : null,
    readsCamera: model["reads_camera"] !== false,
  };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}
