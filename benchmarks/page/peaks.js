// Posts the peak of every block of 128 samples, for two inputs on one clock.
class Peaks extends AudioWorkletProcessor {
  constructor() {
    super();
    this.rows = [];
  }
  process(inputs) {
    const peak = (input) => {
      let most = 0;
      for (const sample of (input && input[0]) || []) most = Math.max(most, Math.abs(sample));
      return Math.round(most * 32767);
    };
    this.rows.push([peak(inputs[0]), peak(inputs[1])]);
    if (this.rows.length === 64) {
      this.port.postMessage({ at: currentFrame + 128, rows: this.rows });
      this.rows = [];
    }
    return true;
  }
}
registerProcessor("peaks", Peaks);
