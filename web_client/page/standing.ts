/** What holds for the whole conversation, in the header: that it is recorded, and the time left where that is short. */
import type { ViewState } from "../sdk/index.ts";
import { byId, setText } from "./dom.ts";
import { timeLeft } from "./words.ts";

export class Standing {
  readonly #recorded = byId("recorded", HTMLSpanElement);
  readonly #timeLeft = byId("time-left", HTMLSpanElement);

  /** @param now in milliseconds of `Date.now()`, for the countdown. */
  show(state: ViewState, now: number): void {
    // The element stays in place, so that its words are read out when they come.
    setText(this.#recorded, state.recorded ? "Recorded" : "");
    this.#timeLeft.hidden = state.endsAt === null;
    if (state.endsAt !== null) setText(this.#timeLeft, `${timeLeft(state.endsAt - now) ?? "0:00"} left`);
  }
}
