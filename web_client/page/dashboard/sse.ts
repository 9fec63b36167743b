/** Server-Sent Events as far as one data stream needs them. Source: WHATWG HTML §9.2.6, "Interpreting an event stream". */

/** Takes the stream in pieces, cut anywhere, and gives the data of each complete event. */
export class EventStreamParser {
  #rest = "";
  #data: string[] = [];

  /** @returns the data of the events that this piece completes, oldest first. */
  push(piece: string): readonly string[] {
    const found: string[] = [];
    const text = this.#rest + piece;
    // A CR at the end may be half of a CRLF.
    const lines = text.replace(/\r$/, "").split(/\r\n|\n|\r/);
    this.#rest = (lines.pop() ?? "") + (text.endsWith("\r") ? "\r" : "");
    for (const line of lines) {
      if (line === "") {
        if (this.#data.length > 0) found.push(this.#data.join("\n"));
        this.#data = [];
      } else if (line === "data" || line.startsWith("data:")) {
        this.#data.push(line.slice(5).replace(/^ /, ""));
      }
      // Comments, ids, names and retry times are not used.
    }
    return found;
  }
}
