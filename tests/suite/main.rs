//! The integration tests: the real store, on real and simulated disks.
//!
//! | folder | what it tests |
//! | --- | --- |
//! | `api` | each call of the public interface |
//! | `concurrency` | threads, histories judged by checkers, random settings |
//! | `crash` | death of the process, power cuts, I/O errors, recovery |
//! | `disk_full` | full disks, and the bounds of memory and files |
//! | `tools` | damaged files, verify, repair |
//! | `support` | what several of them need |
//! | `tidy` | the rules of the source tree |

mod api;
mod concurrency;
mod crash;
mod disk_full;
mod support;
mod tidy;
mod tools;
