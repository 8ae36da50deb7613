//! What may stand behind `soak`. Only declarations; the doc comments are the help texts that users read.

use crate::bytes;
use crate::duration::parse_duration;
use clap::Args;
use std::time::Duration;

const HELP: &str = "\
A child process writes with several threads (puts, overwrites, deletes, batches, large values, syncs, flushes) and checks what
it reads (gets, multi-gets, scans both ways, snapshots and iterators that live long) against what it wrote. It is killed at
random moments, also while it opens the store; the next one demands the state after exactly the operations that were
acknowledged, or one more. Some lives end with a clean close; budget, compression, threads and sync interval change from life
to life; some recover as after a power loss, where all that was synced must be there. Now and then every byte is verified.

Bounds, checked all the time; passing one is a failure:
  memory   one and a half times the life's budget (taken as 128M where it is less), 64M, and what the soak itself keeps
  disk     four times the live bytes, twice the budget, and 256M
  files    768 open at once
  threads  those of the soak, those for background work, and 24

Output: a line a minute, then a summary; with --json an object each. Operations follow from the seed alone.

Without --db all is in a temporary directory (of TMPDIR), which is removed at a good end, and kept and named at a bad one.
With --db it is in that directory, made in an absent or empty one, and stays: a soak that is there already goes on.

Exit code 4 if the store broke a promise.

Examples:
  alluvium soak --for 1h
  alluvium soak --for 10m --threads 4 --memory 64M --json
  alluvium --db /tmp/store soak --for 30s --seed 7";

/// Work on a store at random and kill it at random, for as long as is asked, checking everything that is read
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Soak {
    /// How long, such as 30s, 10m or 1h
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration, default_value = "10m")]
    pub duration: Duration,
    /// Operations and ends of lives follow from this number [default: drawn, and printed]
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,
    /// Threads that write; one more only reads [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: Option<u16>,
    /// Keys of all threads together [default: 400000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    pub keys: Option<u64>,
    /// Bytes of a value in the mean; some are much larger [default: 200]
    #[arg(long, value_name = "SIZE", value_parser = value_size)]
    pub value_size: Option<u64>,
    /// The child's own form: which life it is to live
    #[arg(long, hide = true)]
    pub child: Option<u64>,
}

fn value_size(text: &str) -> Result<u64, String> {
    let size = bytes::parse_size(text)?;
    if (8..=64 << 10).contains(&size) { Ok(size) } else { Err("expected 8 to 64K bytes".to_string()) }
}
