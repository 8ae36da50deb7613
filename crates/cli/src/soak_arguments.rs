//! The arguments of `soak`: declarations only. The doc comments are the help texts that users read.

use crate::bytes;
use crate::duration::parse_duration;
use clap::Args;
use std::time::Duration;

const HELP: &str = "\
A child process writes with several threads (puts, overwrites, deletes, batches, large values, syncs, flushes) and checks what
it reads (gets, multi-gets, scans in both directions, long-lived snapshots and iterators) against what it wrote. The parent kills
it at random moments, including while it opens the store, and starts the next child. This one must find the state after exactly the
acknowledged operations, or one more. Some rounds end with a clean close. Memory budget, compression, threads and sync interval
change from round to round. Some rounds recover as after a power loss and must find everything that was synced. Some verify every byte.

Limits, checked continuously; exceeding one is a failure:
  memory   one and a half times the budget of the round (at least 128M), plus 64M, plus the soak's own data
  disk     four times the live bytes, plus twice the budget, plus 256M
  files    768 open files
  threads  the threads of the soak and for background work, plus 24

Output: one line per minute, then a summary; with --json one object each. The operations depend only on the seed.

Without --db all files are in a temporary directory (in TMPDIR), which is removed after success; after a failure it is kept and its
path printed. With --db they are in that directory, which must be absent, empty, or hold an earlier soak, which then continues.

Exit code 4 if the store violated a guarantee.

Examples:
  alluvium soak --for 1h
  alluvium soak --for 10m --threads 4 --memory 64M --json
  alluvium --db /tmp/store soak --for 30s --seed 7";

/// Run random operations on a store and kill it at random moments, checking everything that is read
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Soak {
    /// Duration, such as 30s, 10m or 1h
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration, default_value = "10m")]
    pub duration: Duration,
    /// Seed of the operations and of the rounds [default: random, and printed]
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,
    /// Threads that write; one more thread only reads [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: Option<u16>,
    /// Number of keys, over all threads [default: 400000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    pub keys: Option<u64>,
    /// Mean size of a value; some are much larger [default: 200]
    #[arg(long, value_name = "SIZE", value_parser = value_size)]
    pub value_size: Option<u64>,
    /// Internal: run as the child process of this round
    #[arg(long, hide = true)]
    pub child: Option<u64>,
}

fn value_size(text: &str) -> Result<u64, String> {
    let size = bytes::parse_size(text)?;
    if (8..=64 << 10).contains(&size) { Ok(size) } else { Err("expected 8 to 64K bytes".to_string()) }
}
