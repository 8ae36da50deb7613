//! The child's side: reads a job, then runs a round for each further line on standard input and reports its figures.

use super::host::{Answer, Round};
use alluvium_bench::engine::Result;
use serde::de::DeserializeOwned;
use std::io::{BufRead, Write};

/// Serves until standard input ends; errors are also sent to the parent.
pub fn serve<Job: DeserializeOwned>(mut round: impl FnMut(&Job) -> Result<Round>) -> Result<()> {
    let mut lines = std::io::stdin().lock().lines();
    let text = lines.next().ok_or("no job on standard input")??;
    let job: Job = serde_json::from_str(&text).map_err(|error| format!("the job on standard input: {error}"))?;
    crate::child::die_with_parent();
    crate::child::raise_file_limit();
    for line in lines {
        line?;
        match round(&job) {
            Ok(figures) => tell(&Answer::Measured { figures })?,
            Err(error) => {
                tell(&Answer::Failed { error: error.to_string() })?;
                return Err(error);
            }
        }
    }
    Ok(())
}

fn tell(answer: &Answer) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, answer)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}
