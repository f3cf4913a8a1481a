// What part of time is shown: one object that all pictures of a page follow.

/** Seconds from the Plan's origin; tells "change". */
export class Span extends EventTarget {
  /**
   * @param {number} first the earliest that can be shown
   * @param {number} last the latest
   * @param {number} [least] the shortest time that is shown
   */
  constructor(first, last, least = 300) {
    super();
    this.first = first;
    this.last = last;
    this.least = least;
    this.from = first;
    this.to = last;
  }

  get length() {
    return this.to - this.from;
  }

  /** Lets other times be shown, and keeps what is shown within them. @param {number} first @param {number} last */
  bound(first, last) {
    this.first = first;
    this.last = last;
    this.show(this.from, this.to);
  }

  /** @param {number} from @param {number} to */
  show(from, to) {
    const length = Math.min(Math.max(to - from, this.least), this.last - this.first);
    const begin = Math.min(Math.max(from, this.first), this.last - length);
    if (begin === this.from && begin + length === this.to) return;
    this.from = begin;
    this.to = begin + length;
    this.dispatchEvent(new Event("change"));
  }

  /** @param {number} part of what is shown; negative: earlier */
  pan(part) {
    this.show(this.from + this.length * part, this.to + this.length * part);
  }

  /** @param {number} factor of the length @param {number} [at] the instant that stays in its place */
  zoom(factor, at = (this.from + this.to) / 2) {
    const length = Math.min(Math.max(this.length * factor, this.least), this.last - this.first);
    const from = at - ((at - this.from) / this.length) * length;
    this.show(from, from + length);
  }

  whole() {
    this.show(this.first, this.last);
  }

  /** Shows an instant in the middle, as close as now. @param {number} at */
  center(at) {
    this.show(at - this.length / 2, at + this.length / 2);
  }
}
