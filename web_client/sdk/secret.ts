/** Short-lived secrets: an API key is shown to the server once, and what it gives in return opens conversations. */
import { ConnectError } from "./problem.ts";

export interface ClientSecret {
  /** The bearer token of `WebRtcTransport`. */
  readonly value: string;
  /** Seconds since 1970 from which it is worth nothing. */
  readonly expiresAt: number;
}

export type SecretScope = "sessions" | "dashboard";

export interface SecretOptions {
  /** `…/v1/realtime/client_secrets`. */
  readonly url: string;
  /** The API key; not kept. */
  readonly key: string;
  /** How long the secret lives, 10 to 7200. */
  readonly seconds: number;
  /** What the secret is for: opening conversations (the default), or watching the server. */
  readonly scope?: SecretScope;
}

/**
 * Exchange an API key for a secret.
 *
 * @throws ConnectError with kind `access` where the key is none, `unreachable` and `refused` as for a call.
 */
export async function createClientSecret({ url, key, seconds, scope }: SecretOptions): Promise<ClientSecret> {
  let response: Response;
  try {
    response = await fetch(url, {
      method: "POST",
      cache: "no-store",
      headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
      body: JSON.stringify({
        expires_after: { anchor: "created_at", seconds },
        ...(scope === undefined ? {} : { duplex: { scope } }),
      }),
    });
  } catch (error) {
    // Also what a key with characters that no header takes ends in; then the server would not know it either.
    if (error instanceof TypeError) throw new ConnectError({ kind: isHeaderSafe(key) ? "unreachable" : "access" });
    throw error;
  }
  if (response.status === 401 || response.status === 403) throw new ConnectError({ kind: "access" });
  const secret = response.ok ? readSecret(await response.text()) : null;
  if (secret === null) {
    throw new ConnectError({ kind: "refused", status: response.status, message: response.statusText || "No secret" });
  }
  return secret;
}

/** A secret out of the server's answer, or out of what was stored of it; null if it is something else. */
export function readSecret(json: string): ClientSecret | null {
  let answer: unknown;
  try {
    answer = JSON.parse(json);
  } catch {
    // A proxy's own page, or nothing.
    return null;
  }
  if (typeof answer !== "object" || answer === null) return null;
  const { value, expires_at: expiresAt } = answer as { value?: unknown; expires_at?: unknown };
  return typeof value === "string" && typeof expiresAt === "number" ? { value, expiresAt } : null;
}

function isHeaderSafe(key: string): boolean {
  return /^[\x20-\x7e]*$/.test(key);
}
