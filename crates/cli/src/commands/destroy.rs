//! `destroy`: removes a store, after confirmation or with `--yes`.

use crate::arguments::{Common, Destroy};
use crate::failure::Failure;
use crate::input::InputError;
use crate::report::{Report, grouped, size};
use crate::store_files;
use alluvium::Db;
use std::io::{self, IsTerminal};

/// Asks for confirmation, removes the store and prints a report. If there is no store, it fails before asking.
pub fn run(common: &Common, destroy: &Destroy) -> Result<(), Failure> {
    let directory = common.directory()?;
    let files = store_files::list(directory)?;
    let bytes = files.iter().map(|file| file.bytes).sum();
    if !destroy.yes {
        if !io::stdin().is_terminal() {
            return Err(Failure::Usage(
                "standard input is not a terminal: pass --yes to remove the store permanently".to_string(),
            ));
        }
        eprint!(
            "Remove the store at {} (files: {}, size: {}) permanently? Type yes: ",
            directory.display(),
            grouped(files.len() as u64),
            size(bytes)
        );
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map_err(|source| {
            Failure::Input(InputError::Io { operation: "read", name: "standard input".to_string(), source })
        })?;
        if answer.trim() != "yes" {
            return Err(Failure::Usage("nothing was removed".to_string()));
        }
    }
    Db::destroy(directory)?;
    if common.json {
        let mut report = Report::new();
        let path = directory.display().to_string();
        report.member("destroyed", path.into()).size("bytes", "", bytes);
        return report.print(true);
    }
    Ok(())
}
