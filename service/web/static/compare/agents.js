// The agents that can be compared, each in a few words. A test holds the names against the planner's.

/** @type {{name: string, says: string, solves?: boolean}[]} `solves`: uses its time, proves a bound */
export const AGENTS = [
  { name: "gree", says: "as late as possible" },
  { name: "gree-l", says: "flat, fewest falls" },
  { name: "earliest", says: "as early as possible" },
  { name: "aligned", says: "the place that leaves most headroom" },
  { name: "headroom", says: "as aligned, squeezes nothing in" },
  { name: "portfolio", says: "the best of several, by value" },
  { name: "portfolio-free", says: "the same in any order of requests" },
  { name: "exact", says: "most value, proves a bound", solves: true },
  { name: "hybrid", says: "as exact, with a cheaper bound", solves: true },
  { name: "milp", says: "Rayon’s integer program, proves a bound", solves: true },
];

/** What is compared where nobody has chosen. */
export const USUAL = ["gree", "headroom", "exact"];
