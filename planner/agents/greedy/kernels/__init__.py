"""Compiled loops of the greedy agents and of commits; greedy.md sections 1-3 are the rules.

Everything here works on columns: column 0 is the first step of the profile handed in. Agents that
place late use column u for step u; agents that place early see time mirrored, so that one set of
rules serves both. Bundles are counted in multiples of the atom's `multiple`.

Files import only from files before them: `codes`, `scratch`, `compiled`, `arrays`; what is `free`;
the shapes of one atom (`blocks`, `rectangle`, `cells`, `runs`, `union`, `levels`, `shapes`); window
averages (`window_limits`, `windowed`, `counting`, `averages`); what is `held`; the `graph` of a
request, `opening` and `traversal`; `refusals`; `batch` and `alone` are the entries.
"""
