// What people write for an instant, as the API takes it: seconds from the origin, "+2h", RFC 3339.

const CLOCK = /^([01]?\d|2[0-3]):([0-5]\d)$/;
const DATE = /^(\d{4})-(\d{2})-(\d{2})[ T]([01]?\d|2[0-3]):([0-5]\d)$/;

/**
 * The instant of a wall clock in the zone that is shown, seconds from the origin.
 * @param {number} wallMs the wall clock's time, as if it were UTC
 * @param {import("./times.js").Times} times
 */
function ofWall(wallMs, times) {
  const guess = (wallMs - times.originMs) / 1000;
  const once = guess - times.offset(guess);
  return guess - times.offset(once); // twice: the clocks may change in between
}

/**
 * @param {string} text as written
 * @param {import("./times.js").Times} times
 * @returns {string|null} as the API reads it; null for nothing, or "now"
 */
export function instantOf(text, times) {
  const told = text.trim();
  if (told === "" || told.toLowerCase() === "now") return null;
  const date = DATE.exec(told);
  if (date) {
    const [year, month, day, hour, minute] = date.slice(1).map(Number);
    return String(ofWall(Date.UTC(year, month - 1, day, hour, minute), times));
  }
  const clock = CLOCK.exec(told);
  if (!clock) return told;
  const present = times.present();
  const wall = new Date(times.originMs + (present + times.offset(present)) * 1000);
  wall.setUTCHours(Number(clock[1]), Number(clock[2]), 0, 0);
  const at = ofWall(wall.getTime(), times);
  return String(at > present ? at : ofWall(wall.getTime() + 86_400_000, times));
}
