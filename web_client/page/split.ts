/** The popover with one turn's latency: what this page heard, and the server's split of it. */
import { type ReplyCaption, SPLIT_PARTS, ttfasHeard } from "../sdk/index.ts";
import { make } from "./dom.ts";
import { PART_NAMES, seconds, TTFAS_FROM } from "./words.ts";

const MARGIN_PX = 8;

export class SplitPopover {
  readonly #element: HTMLElement;
  #pinned = false;

  constructor(element: HTMLElement) {
    this.#element = element;
    element.addEventListener("toggle", (event) => {
      if (event.newState === "closed") this.#pinned = false;
    });
  }

  get isOpen(): boolean {
    return this.#element.matches(":popover-open");
  }

  show(reply: ReplyCaption, anchor: HTMLElement, pinned: boolean): void {
    if (this.#pinned && !pinned) return;
    this.#pinned = pinned;
    this.#element.replaceChildren(...content(reply));
    this.#element.showPopover();
    const at = anchor.getBoundingClientRect();
    const own = this.#element.getBoundingClientRect();
    const left = Math.min(Math.max(MARGIN_PX, at.left), innerWidth - own.width - MARGIN_PX);
    const above = at.top - own.height - MARGIN_PX;
    const below = Math.min(at.bottom + MARGIN_PX, innerHeight - own.height - MARGIN_PX);
    this.#element.style.setProperty("left", `${left}px`);
    this.#element.style.setProperty("top", `${above >= MARGIN_PX ? above : Math.max(MARGIN_PX, below)}px`);
  }

  /** Close what hovering opened; what a press opened stays until the next press elsewhere. */
  hide(): void {
    if (!this.#pinned) this.#element.hidePopover();
  }
}

function content(reply: ReplyCaption): readonly Node[] {
  const { timing } = reply;
  const heard = ttfasHeard(timing);
  if (heard === null) return [];
  const title = make("p", "split-title", make("strong", "", seconds(heard.ms / 1000)), ` ${TTFAS_FROM[heard.from]}`);
  const split = timing.split;
  if (split === null) return [title, make("p", "split-note", "Heard in this page. The server sent no split.")];
  const parts: { name: string; value: number; key: string }[] = SPLIT_PARTS.flatMap((key) => {
    const value = split[key];
    return value === undefined ? [] : [{ key, name: PART_NAMES[key], value }];
  });
  // The server's part ends at the socket; the rest is the network, the jitter buffer and the decoder.
  const sent = split.ttfas ?? parts.reduce((sum, part) => sum + part.value, 0);
  const way = heard.ms / 1000 - sent;
  if (way >= 0) parts.push({ key: "way", name: "Way to your ear", value: way });
  const bar = make("div", "split-bar");
  for (const part of parts) {
    const segment = make("span", `split-part part-${part.key}`);
    segment.style.setProperty("flex-grow", String(Math.max(0, part.value * 1000)));
    bar.append(segment);
  }
  const rows = make("dl", "split-rows");
  for (const part of parts) {
    rows.append(
      make("dt", "", make("span", `split-dot part-${part.key}`), part.name),
      make("dd", "", `${Math.round(part.value * 1000)} ms`),
    );
  }
  return [title, bar, rows, make("p", "split-note", "The total was heard in this page; the parts, and the end of your speech, are the server’s.")];
}
