/** The dashboard: wires the server's stream to its view. All state is in one place; the view is drawn from it. */
import { Access } from "../access.ts";
import { byId, setText } from "../dom.ts";
import { TimeChart } from "./chart.ts";
import { loopChart, ttfasChart } from "./charts.ts";
import { Feed } from "./feed.ts";
import { clock, duration } from "./format.ts";
import { Panels } from "./panels.ts";
import { LanePicture } from "./picture.ts";
import { type DashboardState, type Happening, INITIAL, linkWords, reduce } from "./state.ts";

declare global {
  interface Window {
    /** With `?debug` in the address: the state that is shown. */
    duplexDashboard?: () => DashboardState;
  }
}

/** Charts move by a pixel in seconds; the numbers move with each snapshot. */
const CHART_MS = 500;
/** How often a countdown is written anew. */
const TICK_MS = 250;

let state = INITIAL;
let chartsMs = -Infinity;

const panels = new Panels();
const picture = byId("picture", HTMLCanvasElement);
const table = byId("lane-table", HTMLDivElement);
const lanesSwitch = byId("lanes-switch", HTMLButtonElement);
const ttfas = new TimeChart(byId("ttfas-chart", HTMLDivElement), {
  label: "Time to first audio over the last ten minutes",
  topMin: 0.2,
  steps: 4,
  format: duration,
  reading: byId("ttfas-reading", HTMLParagraphElement),
});
const loop = new TimeChart(byId("loop-chart", HTMLDivElement), {
  label: "Lateness of the event loop and of audio packets",
  topMin: 0.002,
  steps: 2,
  format: duration,
  reading: byId("loop-reading", HTMLParagraphElement),
});

function take(happening: Happening): void {
  state = reduce(state, happening);
  if (happening.type === "snapshot") panels.show(happening.snapshot);
  if (happening.type === "lost" && happening.cause === "access") access.ask();
  renderLink();
  renderCharts();
}

function renderLink(): void {
  const { link, snapshot } = state;
  const words = linkWords(state, performance.now());
  byId("link", HTMLDivElement).dataset["kind"] = link.kind === "live" && snapshot?.sessions.draining === true ? "draining" : link.kind;
  setText(byId("link-label", HTMLSpanElement), words.label);
  setText(byId("link-as-of", HTMLSpanElement), snapshot === null ? "" : clock(snapshot.at_s));
  byId("board", HTMLElement).dataset["fresh"] = link.kind === "live" ? "yes" : "no";
  byId("loss", HTMLParagraphElement).hidden = words.text === "";
  const kept = snapshot === null ? "" : ` What is shown is of ${clock(snapshot.at_s)}.`;
  setText(byId("loss-text", HTMLSpanElement), words.text === "" ? "" : `${words.text}${kept}`);
  setText(byId("loss-again", HTMLSpanElement), words.again);
}

function renderCharts(): void {
  const nowMs = performance.now();
  const shows = { ttfas: ttfasChart(state), loop: loopChart(state) };
  if (shows.ttfas === null || shows.loop === null || nowMs - chartsMs < CHART_MS) return;
  chartsMs = nowMs;
  ttfas.show(shows.ttfas);
  loop.show(shows.loop);
}

lanesSwitch.addEventListener("click", () => {
  const asTable = table.hidden;
  table.hidden = !asTable;
  picture.hidden = asTable;
  lanesSwitch.setAttribute("aria-pressed", String(asTable));
  if (state.snapshot !== null) panels.show(state.snapshot);
});

new LanePicture(picture, byId("lane-reading", HTMLParagraphElement), () => state);
if (new URLSearchParams(location.search).has("debug")) window.duplexDashboard = () => state;
setInterval(renderLink, TICK_MS);
const access = new Access("/v1/realtime/client_secrets", () => feed.again(), "dashboard");
const feed = new Feed("/v1/duplex/live", take, () => performance.now(), () => access.token());
void feed.run();
