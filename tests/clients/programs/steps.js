// What the JavaScript programs share, in Node and in a page: steps, waiting, a microphone, and what is checked.

/** Ceiling of a step; one that passes takes a fraction of it. */
const STEP_MS_MAX = 60_000;

/** What is heard of an answer before it is interrupted. */
const MOMENT_MS = 800;

export const aMoment = () => new Promise((resolve) => setTimeout(resolve, MOMENT_MS));

export function check(condition, what) {
  if (!condition) throw new Error(what);
}

/** Takes the steps in order and reports how each went; without the first there is no other. */
export async function run(steps, report) {
  for (const [number, [step, take]] of steps.entries()) {
    const began = performance.now();
    let error = null;
    try {
      await Promise.race([take(), tooLate(step)]);
    } catch (problem) {
      error = problem?.stack ?? String(problem);
    }
    report({ step, ok: error === null, seconds: Math.round(performance.now() - began) / 1000, error });
    if (error !== null && number === 0) return;
  }
}

function tooLate(step) {
  return new Promise((_, fail) => {
    const timer = setTimeout(() => fail(new Error(`${step}: not in time; waited for ${Log.waitsFor}`)), STEP_MS_MAX);
    timer.unref?.();
  });
}

/** A server's events so far; `until` waits for one after those already waited for. */
export class Log {
  static waitsFor = "nothing";
  events = [];
  #seen = 0;
  #wake = () => {};

  /** Takes the next event, or only says that something has happened. */
  add(event) {
    if (event) this.events.push(event);
    this.#wake();
  }

  /** Waits for the next event of a type; an error on the way is one. */
  async until(type) {
    await this.untilThat(() => {
      while (this.#seen < this.events.length) {
        const event = this.events[this.#seen++];
        check(event.type !== "error", JSON.stringify(event));
        if (event.type === type) return true;
      }
      return false;
    }, type);
    return this.events[this.#seen - 1];
  }

  /** Waits for a condition, which is looked at whenever something has happened. */
  async untilThat(condition, what) {
    while (!condition()) {
      Log.waitsFor = what;
      await new Promise((resolve) => (this.#wake = resolve));
    }
  }

  of(type) {
    return this.events.filter((event) => event.type === type);
  }

  /** All text that came with the audio of an item. */
  said(itemId) {
    const deltas = this.of("response.output_audio_transcript.delta");
    return deltas.filter((event) => event.item_id === itemId).map((event) => event.delta).join("");
  }
}

export const wordsOf = (text) => text.toLowerCase().match(/[a-z0-9]+/g) ?? [];

/** Checks that an answer is there, and right. */
export function checkAnswer(text, accepted) {
  const words = wordsOf(text);
  check(words.length > 0, "the answer has no words");
  check(accepted.length === 0 || accepted.some((word) => words.includes(word)), `${text} has none of ${accepted}`);
}

/** Checks what the history keeps of an interrupted answer: the words that were heard, and no others. */
export function checkHeard(plan, kept, said, playedMs) {
  const [heard, all] = [wordsOf(kept), wordsOf(said)];
  check(heard.every((word, i) => word === all[i]), `"${kept}" is not how "${said}" begins`);
  // The text of a clause comes with its sound, so a cut between two clauses leaves nothing that came and was not heard.
  const most = plan.word_ms === null ? all.length : all.length - 1;
  check(heard.length > 0 && heard.length <= most, `"${kept}" is kept of "${said}", ${playedMs} ms were played`);
  if (plan.word_ms !== null) {
    check(Math.abs(heard.length - playedMs / plan.word_ms) <= 1, `${heard.length} words are kept of ${playedMs} ms`);
  }
}
