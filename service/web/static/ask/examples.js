// Requests to begin with. Each compiles on any cluster with cpu.

/** @type {{name: string, rdl: string}[]} */
export const EXAMPLES = [
  {
    name: "tasks before a deadline",
    rdl: "# 100 tasks of 5 minutes, from 1 to 100 of them at once, within 6 hours\nwindow(\n  atom(<1 cpu, 1 GiB memory>, tasks=100, each=5m),\n  +0, +6h\n)",
  },
  {
    name: "a gang for an hour",
    rdl: "# 8 workers side by side for an hour\nwindow(\n  atom(<4 cpu, 8 GiB memory>, min=8, max=8, lease=1h, work=8h),\n  +10m, +8h\n)",
  },
  {
    name: "a pipeline",
    rdl: "# first the extraction, then the training\nwindow(\n  order(\n    extract: atom(<1 cpu, 2 GiB memory>, tasks=40, each=6m),\n    train: atom(<8 cpu, 16 GiB memory>, min=4, max=4, lease=30m, work=2h)\n  ),\n  +0, +8h\n)",
  },
  {
    name: "wide and short, or narrow and long",
    rdl: "# the first is worth more to you\nwindow(\n  any(\n    atom(<1 cpu>, min=200, max=200, lease=10m, work=2000m),\n    atom(<1 cpu>, min=1, max=50, lease=10m, work=2000m),\n    prefer=[1, 0.8]\n  ),\n  +0, +6h\n)",
  },
  {
    name: "every night",
    rdl: "# between ten and six, five times\nevery(1d,\n  window(atom(<2 cpu>, min=1, max=20, lease=10m, work=10h), 22:00, 06:00),\n  times=5, anchor=14:00, zone=\"Europe/Berlin\"\n)",
  },
];
