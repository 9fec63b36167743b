/** The one place where problems are shown, with what to do about them. */
import type { Problem } from "../sdk/index.ts";
import { byId, make, setText } from "./dom.ts";
import { actionLabel, type ProblemAction, problemWords } from "./words.ts";

export class Notice {
  readonly #element = byId("notice", HTMLDivElement);
  readonly #title = byId("notice-title", HTMLParagraphElement);
  readonly #text = byId("notice-text", HTMLParagraphElement);
  readonly #actions = byId("notice-actions", HTMLDivElement);
  readonly #act: (action: ProblemAction, problem: Problem) => void;
  #shown: Problem | null = null;

  constructor(act: (action: ProblemAction, problem: Problem) => void) {
    this.#act = act;
  }

  /** @param now in milliseconds of `Date.now()`, for the countdowns. */
  show(problem: Problem | null, sessionsMax: number | null, now: number): void {
    this.#element.hidden = problem === null;
    if (problem !== null) {
      // A countdown is read out once, not every second.
      this.#element.setAttribute("aria-live", problem === this.#shown ? "off" : "assertive");
      const words = problemWords(problem, sessionsMax, now);
      setText(this.#title, words.title);
      setText(this.#text, words.text);
      this.#element.dataset["kind"] = problem.kind;
      if (problem !== this.#shown) this.#offer(problem, words.actions);
      const waiting = "retryAt" in problem && problem.retryAt > now;
      for (const button of this.#actions.querySelectorAll("button")) button.disabled = waiting;
    }
    this.#shown = problem;
  }

  #offer(problem: Problem, actions: readonly ProblemAction[]): void {
    this.#actions.replaceChildren(
      ...actions.map((action) => {
        const button = make("button", "action", actionLabel(action, problem));
        button.type = "button";
        button.dataset["testid"] = `notice-${action}`;
        button.addEventListener("click", () => this.#act(action, problem));
        return button;
      }),
    );
  }
}
