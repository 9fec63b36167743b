/**
 * What brings a page back to its conversation: the server's newest token, kept in the tab's session storage, so that a
 * reload finds it. A tab that is duplicated copies the storage, but a ticket that no page has left is not used.
 */
const STORED_AS = "duplex.resume";
/** Between two attempts to come back. */
const BACKOFF_MS = [0, 500, 1_000, 2_000, 4_000] as const;
/** A timer that fires this much late was asleep: the machine slept, or the page was frozen. */
export const SLEPT_MS = 5_000;

export interface Ticket {
  readonly token: string;
  /** How long the server waits for us once our connection is lost. */
  readonly windowMs: number;
  /** When the page was left, in milliseconds of `Date.now()`; null: it has not been. */
  readonly leftAt: number | null;
  /** Whether the conversation had a microphone. */
  readonly microphone: boolean;
}

/** Wait before the n-th attempt, counted from 0. */
export function backoffMs(attempt: number): number {
  return BACKOFF_MS[Math.min(attempt, BACKOFF_MS.length - 1)] ?? 0;
}

/** The ticket, if its page was left and the server may still be waiting. */
export function usableTicket(ticket: Ticket | null, now: number): Ticket | null {
  return ticket === null || ticket.leftAt === null || now - ticket.leftAt > ticket.windowMs ? null : ticket;
}

/** The tab's ticket. Where storage is forbidden it lives in memory: then a reload begins anew. */
export class TicketBox {
  #ticket = readTicket(read() ?? "");

  get ticket(): Ticket | null {
    return this.#ticket;
  }

  keep(ticket: Ticket | null): void {
    this.#ticket = ticket;
    write(ticket === null ? null : JSON.stringify(ticket));
  }
}

/** A ticket out of what was stored of it; null if it is something else. */
export function readTicket(json: string): Ticket | null {
  let stored: unknown;
  try {
    stored = JSON.parse(json);
  } catch {
    // Nothing was stored.
    return null;
  }
  if (typeof stored !== "object" || stored === null) return null;
  const { token, windowMs, leftAt, microphone } = stored as Record<string, unknown>;
  const known = typeof token === "string" && typeof windowMs === "number" && typeof microphone === "boolean";
  return known ? { token, windowMs, leftAt: typeof leftAt === "number" ? leftAt : null, microphone } : null;
}

function read(): string | null {
  try {
    return globalThis.sessionStorage?.getItem(STORED_AS) ?? null;
  } catch (error) {
    if (error instanceof DOMException) return null;
    throw error;
  }
}

function write(text: string | null): void {
  try {
    if (text === null) globalThis.sessionStorage?.removeItem(STORED_AS);
    else globalThis.sessionStorage?.setItem(STORED_AS, text);
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
  }
}
