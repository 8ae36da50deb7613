//! Crash everywhere: the real store, without threads, on the simulated disk, dies before every I/O operation of a run in every
//! way that a process, a machine or a mount can die, is recovered, and must keep promises 2, 4 and 5.
//!
//! - `step`: the operations of a run, which print and read back.
//! - `promise`: what was acknowledged and synced, and whether what a store holds keeps to it.
//! - `world`: a store that a run drives, with its promise.
//! - `death`: the ways to die, and what each must leave.
//! - `explore`: every death before every operation of a run, during recovery too, and going on after it.
//! - `small`: all runs of up to three operations. `long`: runs drawn from a seed, with a list that shrinks to the shortest
//!   that fails.
//! - `ladder`: every operation of a run fails, once or for ever, in every way.
//! - `damage`: a disk that rots, loses and misplaces under a running store.
//!
//! `small`, `long`, `ladder` and `damage` do so on trees of several levels, too, and demand that it struck there: deaths and faults while
//! leaves were split and joined and bundles merged, some while files were kept as they were and, on a full disk, squeezed (`Strikes`).
//!
//! More by command (README.md, Tests): `ALLUVIUM_CRASH_LENGTH` operations in the small runs; `ALLUVIUM_CRASH_WORLDS` long runs from
//! `ALLUVIUM_SEED` on, with one in `ALLUVIUM_CRASH_POINTS` of their crash points, in a tree of small nodes one in twice as many;
//! the small runs on such trees take it, too. `ALLUVIUM_CRASH_CUTS` are the power cuts a crash point; one in
//! `ALLUVIUM_CRASH_RECOVERIES` recoveries dies at each of its operations, too. `ALLUVIUM_CRASH_RUN` is one run as a failure
//! printed it, all of its crash points, with its seed in `ALLUVIUM_SEED`. `ALLUVIUM_LADDER_EVERY=1` fails every operation in every
//! way, `ALLUVIUM_LADDER_FAULT` is one fault as a failure printed it, with its seed in `ALLUVIUM_SEED`.

mod damage;
mod death;
mod explore;
mod ladder;
mod long;
mod promise;
mod small;
mod step;
mod world;
