/**
 * Which events of the server we have seen, by the number in their ids: `event_000000000042_sess_…`. Whoever comes back says
 * the last one, and is told what came after it; what arrives twice is taken once.
 */
const ID = /^event_(\d{12})_(.+)$/;

export class SeenEvents {
  #last: { readonly id: string; readonly number: number; readonly session: string } | null = null;

  /** Id of the last event; null: none was seen. */
  get lastId(): string | null {
    return this.#last?.id ?? null;
  }

  /** Note an event. False: it was seen before. One without a number is always new. */
  take(id: string | undefined): boolean {
    const [, digits, session] = ID.exec(id ?? "") ?? [];
    if (id === undefined || digits === undefined || session === undefined) return true;
    const number = Number(digits);
    if (this.#last !== null && this.#last.session === session && number <= this.#last.number) return false;
    this.#last = { id, number, session };
    return true;
  }

  forget(): void {
    this.#last = null;
  }
}
