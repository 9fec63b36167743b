/**
 * The shell around the server's stream: connects, reads, and connects again when it breaks.
 *
 * `fetch` and not EventSource, because that hides the status: a full server and a dead one would look alike.
 */
import { decodeSnapshot } from "./decode.ts";
import { EventStreamParser } from "./sse.ts";
import type { Happening, LossCause } from "./state.ts";

/** Without a snapshot for so long the connection is given up. */
const SILENCE_MS = 5_000;
const RETRY_MS_FIRST = 1_000;
const RETRY_MS_MAX = 5_000;

class Lost extends Error {
  readonly reason: LossCause;
  readonly status: number | null;

  constructor(reason: LossCause, status: number | null = null) {
    super(reason);
    this.reason = reason;
    this.status = status;
  }
}

export class Feed {
  readonly #url: string;
  readonly #tell: (happening: Happening) => void;
  readonly #now: () => number;
  readonly #token: () => string | null;
  #retryMs = RETRY_MS_FIRST;
  #again: () => void = () => undefined;

  /**
   * @param url answers with a stream of snapshots.
   * @param now milliseconds of the page's clock.
   * @param token the bearer token to ask with; null: there is none.
   */
  constructor(url: string, tell: (happening: Happening) => void, now: () => number, token: () => string | null) {
    this.#url = url;
    this.#token = token;
    this.#tell = tell;
    this.#now = now;
  }

  /** Run for as long as the page lives. */
  async run(): Promise<never> {
    for (;;) {
      this.#tell({ type: "connecting" });
      const lost = await this.#read();
      const waitMs = lost.reason === "access" ? Infinity : this.#retryMs;
      const again = new Promise<void>((resolve) => {
        this.#again = resolve;
        if (waitMs < Infinity) setTimeout(resolve, waitMs);
      });
      this.#tell({ type: "lost", cause: lost.reason, status: lost.status, retryMs: this.#now() + waitMs });
      await again;
      this.#retryMs = Math.min(RETRY_MS_MAX, this.#retryMs * 2);
    }
  }

  /** There is another token: try at once. */
  again(): void {
    this.#again();
  }

  /** Read one connection to its end. */
  async #read(): Promise<Lost> {
    const control = new AbortController();
    let silence = setTimeout(() => control.abort(new Lost("silent")), SILENCE_MS);
    try {
      const token = this.#token();
      const headers: HeadersInit = token === null ? {} : { Authorization: `Bearer ${token}` };
      const response = await fetch(this.#url, { cache: "no-store", headers, signal: control.signal });
      if (response.status === 401) return new Lost("access", response.status);
      if (!response.ok || response.body === null) {
        return new Lost(response.status === 503 ? "busy" : "refused", response.status);
      }
      const parser = new EventStreamParser();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return new Lost("unreachable");
        for (const text of parser.push(value)) {
          const snapshot = decodeSnapshot(text);
          if (snapshot === null) return new Lost("unreadable");
          clearTimeout(silence);
          silence = setTimeout(() => control.abort(new Lost("silent")), SILENCE_MS);
          this.#retryMs = RETRY_MS_FIRST;
          this.#tell({ type: "snapshot", snapshot, receivedMs: this.#now() });
        }
      }
    } catch (error) {
      if (error instanceof Lost) return error;
      // fetch and its reader fail with a TypeError when the network does.
      if (error instanceof TypeError) return new Lost("unreachable");
      throw error;
    } finally {
      clearTimeout(silence);
      control.abort();
    }
  }
}
