/** Tables and lists whose rows stay in the page while their numbers change, so that focus, selection and scrolling live. */
import { make, setText } from "../dom.ts";

export interface Cell {
  readonly text: string;
  /** Class of a mark before the text. */
  readonly mark?: string;
  /** Draws a bar before the text, 0..1; more is full. */
  readonly gauge?: number;
  readonly title?: string;
}

export interface Row {
  readonly key: string;
  readonly cells: readonly (Cell | string)[];
}

/** Bars change colour where a value becomes one to look at. */
const HIGH = 0.75;
const FULL = 0.95;

/** The body of a table: one row for each key, in the order given. */
export class Rows {
  readonly #body: HTMLElement;
  readonly #rows = new Map<string, HTMLTableRowElement>();
  readonly #none: HTMLTableRowElement;

  /** @param none what an empty table says. */
  constructor(body: HTMLElement, columns: number, none: string) {
    this.#body = body;
    const cell = make("td", "none", none);
    cell.colSpan = columns;
    this.#none = make("tr", "", cell);
  }

  show(rows: readonly Row[]): void {
    const keys = new Set(rows.map(({ key }) => key));
    for (const [key, row] of this.#rows) {
      if (keys.has(key)) continue;
      row.remove();
      this.#rows.delete(key);
    }
    for (const [index, row] of rows.entries()) {
      const element = this.#row(row);
      if (this.#body.children[index] !== element) this.#body.insertBefore(element, this.#body.children[index] ?? null);
      for (const [column, cell] of row.cells.entries()) {
        const place = element.cells[column];
        if (place !== undefined) fill(place, typeof cell === "string" ? { text: cell } : cell);
      }
    }
    if (rows.length === 0) this.#body.append(this.#none);
    else this.#none.remove();
  }

  #row({ key, cells }: Row): HTMLTableRowElement {
    let row = this.#rows.get(key);
    if (row === undefined) {
      row = make("tr", "", ...cells.map((cell) => emptyCell(typeof cell === "string" ? { text: cell } : cell)));
      this.#rows.set(key, row);
    }
    return row;
  }
}

function emptyCell({ mark, gauge }: Cell): HTMLTableCellElement {
  const cell = make("td", "");
  if (mark !== undefined) cell.append(make("span", `split-dot ${mark}`));
  if (gauge !== undefined) cell.append(make("span", "gauge", make("i", "")));
  cell.append(make("span", "value"));
  return cell;
}

function fill(cell: HTMLTableCellElement, { text, gauge, title }: Cell): void {
  const value = cell.querySelector(".value");
  if (value !== null) setText(value, text);
  if (title !== undefined) cell.title = title;
  const bar = cell.querySelector<HTMLElement>(".gauge");
  if (bar === null || gauge === undefined) return;
  bar.dataset["level"] = gauge >= FULL ? "full" : gauge >= HIGH ? "high" : "low";
  bar.querySelector<HTMLElement>("i")?.style.setProperty("transform", `scaleX(${Math.min(1, Math.max(0, gauge))})`);
}

/** A list of names and counts. */
export class Pairs {
  readonly #list: HTMLElement;
  #shown = "";

  constructor(list: HTMLElement) {
    this.#list = list;
  }

  show(pairs: readonly (readonly [name: string, text: string])[]): void {
    const shown = JSON.stringify(pairs);
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.#list.replaceChildren(...pairs.flatMap(([name, text]) => [make("dt", "", name), make("dd", "", text)]));
  }
}

/** A bar of parts whose widths are their values. */
export class Stack {
  readonly #parts: readonly HTMLElement[];

  constructor(bar: HTMLElement, classNames: readonly string[]) {
    this.#parts = classNames.map((className) => make("span", className));
    bar.append(...this.#parts);
  }

  /** @param values ≥ 0 in any one unit, in the order of the classes; null and 0 take no room. */
  show(values: readonly (number | null)[]): void {
    for (const [index, part] of this.#parts.entries()) {
      const value = values[index] ?? 0;
      part.hidden = value <= 0;
      part.style.setProperty("flex-grow", String(value * 1_000));
    }
  }
}
