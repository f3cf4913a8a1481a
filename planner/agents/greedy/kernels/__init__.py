"""Compiled loops of the greedy agents and of commits; greedy.md sections 1-3 define them.

All kernels work on columns: column 0 is the first step of the given profile. Agents that place late
use column u for step u; agents that place early use mirrored time, so one set of rules serves both.
Bundles are counted in multiples of the atom's `multiple`.

Files import only from files listed before them: `codes`, `scratch`, `compiled`, `arrays`; `free`;
the shapes of one atom (`blocks`, `rectangle`, `cells`, `runs`, `union`, `levels`, `shapes`); window
averages (`window_limits`, `windowed`, `counting`, `averages`); `held`; the `graph` of a request,
`opening` and `traversal`; `refusals`; `batch` and `alone` are the entry points.
"""
