//! Crashes at every point. The real store runs without threads on the simulated disk. It dies before every I/O
//! operation of a run, in every way in which a process, a machine or a mount can die. Each time it is recovered and
//! must keep promises 2, 4 and 5 (`docs/guarantees.md`).
//!
//! - `step`: the operations of a run, which can be printed and read back.
//! - `promise`: what was acknowledged and synced, and whether the contents of a store agree with it.
//! - `world`: a store on which a run is executed, with its promise.
//! - `death`: the ways to die, and the data that must survive each.
//! - `explore`: every death before every operation of a run, also during recovery, and further writes after it.
//! - `small`: all runs of up to three operations. `long`: runs drawn from a seed; a run that fails is shrunk.
//! - `ladder`: every operation of a run fails, once or for ever, in every way.
//! - `keyspaces`: short runs that create, write, empty and drop keyspaces, with deaths of their own.
//! - `damage`: a disk that corrupts, loses and misplaces data under a running store.
//!
//! `small`, `long`, `ladder` and `damage` also use trees of several levels. They require that some deaths and faults
//! happen while leaves are split and joined, bundles are merged, files are reused, and, on a full disk, live data is
//! rewritten (`Strikes`).
//!
//! Settings for longer runs (README.md, Tests): `ALLUVIUM_CRASH_LENGTH` is the number of operations of the small runs;
//! `ALLUVIUM_CRASH_WORLDS` the number of long runs, with seeds from `ALLUVIUM_SEED` on. One in `ALLUVIUM_CRASH_POINTS`
//! crash points is tried, in a tree of small nodes one in twice as many; this holds for the small runs on such trees,
//! too. `ALLUVIUM_CRASH_CUTS` is the number of power cuts for each crash point; one in `ALLUVIUM_CRASH_RECOVERIES`
//! recoveries dies at each of its operations, too. `ALLUVIUM_CRASH_RUN` is one run as printed by a failure, tried at
//! all its crash points, with its seed in `ALLUVIUM_SEED`. `ALLUVIUM_LADDER_EVERY=1` fails every operation in every
//! way; `ALLUVIUM_LADDER_FAULT` is one fault as printed by a failure, with its seed in `ALLUVIUM_SEED`.

mod damage;
mod death;
mod explore;
mod keyspaces;
mod ladder;
mod long;
mod promise;
mod small;
mod step;
mod world;
