/** The captions of both sides, one list item each, updated in place. */
import { type Caption, heardAndAhead, type ReplyCaption, ttfasHeard, type UserCaption, type ViewState } from "../sdk/index.ts";
import { make, setText } from "./dom.ts";
import { limitedWords, remarkOf, seconds } from "./words.ts";

/** Within this of the bottom the list follows what is new. */
const FOLLOW_PX = 80;

export interface CaptionActions {
  retryReply(): void;
  /** Show the latency split of a reply beside this element; `pinned` when asked for by a press. */
  showSplit(reply: ReplyCaption, anchor: HTMLElement, pinned: boolean): void;
  hideSplit(): void;
}

export class Captions {
  readonly #list: HTMLElement;
  readonly #scroller: HTMLElement;
  readonly #actions: CaptionActions;
  readonly #rows = new Map<string, Row>();
  #count = 0;

  constructor(list: HTMLElement, scroller: HTMLElement, actions: CaptionActions) {
    this.#list = list;
    this.#scroller = scroller;
    this.#actions = actions;
  }

  /** @param now in milliseconds of `Date.now()`: what has been heard depends on it. */
  show(state: ViewState, now: number): void {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    const added = state.captions.length > this.#count;
    this.#count = state.captions.length;
    const follow = added || scrollHeight - scrollTop - clientHeight < FOLLOW_PX;
    const wanted = new Set(state.captions.map((caption) => caption.id));
    for (const [id, row] of this.#rows) {
      if (wanted.has(id)) continue;
      row.element.remove();
      this.#rows.delete(id);
    }
    let before: Element | null = null;
    for (const caption of state.captions) {
      const row = this.#rows.get(caption.id) ?? this.#add(caption);
      row.show(caption, state, now);
      const place: Element | null = before === null ? this.#list.firstElementChild : before.nextElementSibling;
      if (place !== row.element) this.#list.insertBefore(row.element, place);
      before = row.element;
    }
    if (follow && this.#scroller.scrollHeight !== scrollHeight) this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }

  #add(caption: Caption): Row {
    const row = newRow(caption, this.#actions);
    this.#rows.set(caption.id, row);
    return row;
  }
}

interface Row {
  readonly element: HTMLElement;
  show(caption: Caption, state: ViewState, now: number): void;
}

function newRow(caption: Caption, actions: CaptionActions): Row {
  switch (caption.kind) {
    case "user":
      return userRow();
    case "reply":
      return replyRow(actions);
    case "break":
      return lineRow("New conversation");
    case "forgotten":
      return lineRow("The model no longer knows what is above");
  }
}

function lineRow(words: string): Row {
  return { element: make("li", "break", make("span", "", words)), show: () => undefined };
}

function userRow(): Row {
  const words = make("p", "words");
  words.dir = "auto";
  words.dataset["testid"] = "words";
  const dots = make("span", "dots", make("i", ""), make("i", ""), make("i", ""));
  dots.setAttribute("aria-hidden", "true");
  const limited = make("p", "limited");
  limited.dataset["testid"] = "limited";
  const element = make("li", "said by-user", make("span", "unseen", "You: "), words, dots, limited);
  element.dataset["testid"] = "caption-user";
  return {
    element,
    show(caption) {
      if (caption.kind !== "user") return;
      setText(words, userText(caption));
      words.hidden = words.textContent === "";
      dots.hidden = words.textContent !== "";
      limited.hidden = caption.limitedMs === undefined;
      if (caption.limitedMs !== undefined) setText(limited, limitedWords(caption.limitedMs));
      element.dataset["progress"] = caption.progress;
      element.setAttribute("aria-busy", String(caption.progress === "speaking" || caption.progress === "waiting"));
    },
  };
}

function userText(caption: UserCaption): string {
  return caption.progress === "failed" ? "(could not be transcribed)" : caption.text;
}

function replyRow(actions: CaptionActions): Row {
  const heard = make("span", "heard");
  heard.dataset["testid"] = "heard";
  const ahead = make("span", "ahead");
  ahead.dataset["testid"] = "ahead";
  const words = make("p", "words", heard, ahead);
  words.dir = "auto";
  words.dataset["testid"] = "words";
  const ttfas = make("button", "ttfas");
  ttfas.type = "button";
  ttfas.dataset["testid"] = "ttfas";
  ttfas.hidden = true;
  const remark = make("span", "remark");
  remark.dataset["testid"] = "remark";
  const retry = make("button", "retry", "Try again");
  retry.type = "button";
  retry.addEventListener("click", () => actions.retryReply());
  const meta = make("div", "meta", ttfas, remark, retry);
  const element = make("li", "said by-assistant", make("span", "unseen", "Assistant: "), words, meta);
  element.dataset["testid"] = "caption-assistant";
  let shown: ReplyCaption | null = null;
  const showSplit = (pinned: boolean): void => {
    if (shown !== null) actions.showSplit(shown, ttfas, pinned);
  };
  ttfas.addEventListener("click", () => showSplit(true));
  ttfas.addEventListener("pointerenter", ({ pointerType }) => {
    if (pointerType === "mouse") showSplit(false);
  });
  ttfas.addEventListener("pointerleave", () => actions.hideSplit());
  return {
    element,
    show(caption, state, now) {
      if (caption.kind !== "reply") return;
      const text = heardAndAhead(caption, now, state.rate);
      setText(heard, text.heard);
      setText(ahead, text.ahead);
      if (caption === shown) return;
      shown = caption;
      element.dataset["status"] = caption.status;
      element.dataset["playout"] = caption.playout;
      element.setAttribute("aria-busy", String(caption.status === "in_progress"));
      showTtfas(ttfas, caption);
      setText(remark, remarkOf(caption));
      retry.hidden = caption.status !== "failed" || state.phase === "idle";
    },
  };
}

function showTtfas(chip: HTMLElement, reply: ReplyCaption): void {
  const ttfas = ttfasHeard(reply.timing);
  // The server's split says how long it waited for the end of the turn; until it has come, the figure would be too good.
  const settled = ttfas !== null && (ttfas.from !== "turn" || reply.timing.split !== null || reply.status !== "in_progress");
  chip.hidden = !settled;
  if (ttfas === null || !settled) return;
  setText(chip, `heard after ${seconds(ttfas.ms / 1000)}`);
  chip.dataset["from"] = ttfas.from;
}
