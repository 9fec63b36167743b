/** Everything of the dashboard that is words and numbers: from one snapshot to the page. */
import { byId, make, setText } from "../dom.ts";
import { PART_NAMES } from "../words.ts";
import { age, amount, duration, milliseconds, NOTHING, plural, share, wholeAge } from "./format.ts";
import { lanesInWords, modeCounts } from "./lanes.ts";
import { Pairs, type Row, Rows, Stack } from "./rows.ts";
import type { LaneMode, LimitView, Quantiles, Snapshot, StageView, TtfasSplit } from "./snapshot.ts";

const PARTS = ["endpointing", "transcribe", "think", "talk", "vocode", "send"] as const satisfies readonly (keyof TtfasSplit)[];
const BARGE_IN_PARTS = ["detect", "confirm", "egress"] as const;
const BARGE_IN_NAMES = { detect: "Voice to onset", confirm: "Onset to cut", egress: "Cut to fade" } as const;
const MODES: readonly LaneMode[] = ["listening", "hearing", "thinking", "speaking", "ducked", "held", "connecting"];

export class Panels {
  readonly #splitStack = new Stack(byId("split-stack", HTMLDivElement), PARTS.map((part) => `part-${part}`));
  readonly #splitRows = rows("split-rows", 3, "");
  readonly #bargeStack = new Stack(byId("barge-stack", HTMLDivElement), BARGE_IN_PARTS.map((part) => `part-${part}`));
  readonly #bargeRows = rows("barge-rows", 3, "");
  readonly #stageRows = rows("stage-rows", 8, "No stages.");
  readonly #limitRows = rows("limit-rows", 3, "The server declares no limits.");
  readonly #loopRows = rows("loop-rows", 3, "");
  readonly #laneRows = rows("lane-rows", 8, "No live session.");
  readonly #outcomes = new Pairs(byId("outcomes", HTMLDListElement));
  readonly #refusals = new Pairs(byId("refusals", HTMLDListElement));
  readonly #modes = new Map<LaneMode, HTMLElement>();

  constructor() {
    const legend = byId("modes", HTMLUListElement);
    for (const mode of MODES) {
      const count = make("b", "", NOTHING);
      this.#modes.set(mode, count);
      legend.append(make("li", "", make("i", `key key-${mode}`), mode, count));
    }
    legend.append(make("li", "", make("i", "key key-dry"), "dry"), make("li", "", make("i", "key key-cut"), "cut"));
    this.#showNothing();
  }

  show(snapshot: Snapshot): void {
    const { model, version, uptime_s } = snapshot;
    setText(byId("model-name", HTMLElement), model.name);
    byId("test-double", HTMLElement).hidden = !model.test_double;
    setText(byId("about", HTMLElement), `${version}, up ${age(uptime_s)}`);
    showFigures(snapshot);
    this.#showSplit(snapshot);
    this.#showBargeIn(snapshot);
    this.#stageRows.show(snapshot.stages.map(stageRow));
    this.#showAdmission(snapshot);
    this.#loopRows.show(loopRows(snapshot));
    this.#showLanes(snapshot);
  }

  #showNothing(): void {
    for (const figure of document.querySelectorAll(".figure dd:not(.figure-note)")) setText(figure, NOTHING);
    this.#splitRows.show(PARTS.map((part) => quantileRow(part, PART_NAMES[part], null, `part-${part}`)));
    this.#bargeRows.show(BARGE_IN_PARTS.map((part) => quantileRow(part, BARGE_IN_NAMES[part], null, `part-${part}`)));
  }

  #showSplit({ ttfas: { split } }: Snapshot): void {
    this.#splitStack.show(PARTS.map((part) => split[part].p50));
    this.#splitRows.show(PARTS.map((part) => quantileRow(part, PART_NAMES[part], split[part], `part-${part}`)));
  }

  #showBargeIn({ barge_in, window_s }: Snapshot): void {
    this.#bargeStack.show(BARGE_IN_PARTS.map((part) => barge_in[part].p50));
    this.#bargeRows.show(BARGE_IN_PARTS.map((part) => quantileRow(part, BARGE_IN_NAMES[part], barge_in[part], `part-${part}`)));
    const outcomes = Object.entries(barge_in.outcomes).map(([name, count]) => [name, amount(count)] as const);
    this.#outcomes.show(outcomes.length > 0 ? outcomes : [[`no onset in ${wholeAge(window_s)}`, ""]]);
  }

  #showAdmission({ admission: { admitted, refused, limits } }: Snapshot): void {
    const reasons = Object.entries(refused).filter(([, count]) => count > 0);
    const all = reasons.reduce((sum, [, count]) => sum + count, 0);
    setText(byId("admitted", HTMLElement), `admitted ${amount(admitted)} · refused ${amount(all)}`);
    this.#refusals.show(reasons.map(([reason, count]) => [`refused: ${reason}`, amount(count)] as const));
    // In one order always: the server's goes by load, and rows that change places cannot be read.
    this.#limitRows.show(limits.toSorted((a, b) => a.name.localeCompare(b.name)).map(limitRow));
  }

  #showLanes({ lanes }: Snapshot): void {
    const counts = modeCounts(lanes);
    for (const [mode, element] of this.#modes) setText(element, String(counts[mode]));
    const empty = byId("lanes-empty", HTMLElement);
    empty.hidden = lanes.length > 0;
    setText(empty, "No live session.");
    const picture = byId("picture", HTMLCanvasElement);
    const words = `${lanesInWords(lanes)} Arrow keys read one session; the table beside has them all.`;
    if (picture.getAttribute("aria-label") !== words) picture.setAttribute("aria-label", words);
    if (byId("lane-table", HTMLElement).hidden) return;
    this.#laneRows.show(
      lanes.map((lane) => ({
        key: String(lane.key),
        cells: [
          `#${lane.key}`,
          lane.mode,
          lane.transport,
          milliseconds(lane.lead_ms),
          milliseconds(lane.target_ms),
          milliseconds(lane.slack_ms),
          amount(lane.epoch),
          age(lane.age_s),
        ],
      })),
    );
  }
}

function showFigures(snapshot: Snapshot): void {
  const { sessions, ttfas, underruns, barge_in, loop, window_s, invariants_broken, stale_packets } = snapshot;
  const window = wholeAge(window_s);
  const replies = snapshot.lanes.filter(({ mode }) => mode === "speaking" || mode === "ducked" || mode === "held").length;
  figure("sessions", `${amount(sessions.live)} / ${amount(sessions.max)}`, sessions.draining ? "draining" : `${replies} with a reply playing`);
  figure("heard", pair(ttfas.heard), counted(ttfas.heard, window));
  figure("sent", pair(ttfas.sent), counted(ttfas.sent, window));
  figure(
    "underruns",
    amount(underruns.window_n),
    `${duration(underruns.window_s)} in ${window} · ever ${amount(underruns.total_n)}`,
    underruns.window_n > 0,
  );
  figure("stop", duration(barge_in.egress.p95), plural(barge_in.egress.n, "cut measured", "cuts measured"));
  figure("lag", duration(loop.lag.p95), `packets late ${duration(loop.lateness.p95)}`);
  const broken = invariants_broken + stale_packets;
  figure("broken", amount(invariants_broken), plural(stale_packets, "stale packet"), broken > 0);
}

function figure(name: string, text: string, note: string, alarm = false): void {
  const place = byId(`figure-${name}`, HTMLElement);
  setText(place, text);
  setText(byId(`note-${name}`, HTMLElement), note);
  const parent = place.parentElement;
  if (parent !== null) parent.dataset["alarm"] = alarm ? "yes" : "no";
}

function pair({ p50, p90 }: Quantiles): string {
  return p50 === null ? NOTHING : `${duration(p50)} / ${duration(p90)}`;
}

function counted({ n, p95 }: Quantiles, window: string): string {
  return n === 0 ? `no reply in ${window}` : `p95 ${duration(p95)} · ${amount(n)} in ${window}`;
}

function rows(id: string, columns: number, none: string): Rows {
  return new Rows(byId(id, HTMLTableSectionElement), columns, none);
}

function quantileRow(key: string, name: string, value: Quantiles | null, mark?: string): Row {
  const first = mark === undefined ? { text: name } : { text: name, mark };
  return { key, cells: [first, duration(value?.p50 ?? null), duration(value?.p95 ?? null)] };
}

function stageRow(stage: StageView): Row {
  return {
    key: stage.name,
    cells: [
      { text: stage.name, title: `${stage.role} on ${stage.device}` },
      { text: share(stage.busy), gauge: stage.busy },
      `${amount(stage.running)} / ${amount(stage.slots)}`,
      amount(stage.queued),
      milliseconds(stage.queued_ms),
      duration(stage.queue_p95_s),
      stage.batch_mean === null ? NOTHING : stage.batch_mean.toFixed(1),
      duration(stage.step_ms / 1_000),
    ],
  };
}

function limitRow({ name, load, limit }: LimitView): Row {
  const full = limit > 0 ? load / limit : 0;
  return {
    key: name,
    cells: [name, { text: limit > 0 ? share(full) : NOTHING, gauge: full }, `${amount(load)} / ${amount(limit)}`],
  };
}

function loopRows({ loop }: Snapshot): readonly Row[] {
  return [
    quantileRow("lag", "Wakes late", loop.lag),
    quantileRow("lateness", "Packets late", loop.lateness),
    quantileRow("overhead", "Server’s share of a turn", loop.overhead),
  ];
}
