//! The syntax of `backup`. The doc comments are the help texts that users read.

use clap::{ArgGroup, Args, Subcommand};
use std::num::ParseIntError;
use std::path::PathBuf;

/// Back up a store into a directory that holds many backups, copying only new files; list, verify, restore and remove backups
#[derive(Debug, Args)]
#[command(after_help = "\
A backup has the whole contents of a store at one moment. Files that several backups have are in the directory once. Only `backup
create` needs the store; it must not be open in another process: a program that has it open makes its own backups (`Db::backup`), while
it writes.

Examples:
  alluvium --db /tmp/store backup create /tmp/backups
  alluvium backup list /tmp/backups
  alluvium backup verify /tmp/backups
  alluvium backup restore /tmp/backups latest /tmp/restored
  alluvium backup remove /tmp/backups --keep 7")]
pub struct Backup {
    /// What to do
    #[command(subcommand)]
    pub action: BackupAction,
}

/// What `backup` does.
#[derive(Debug, Subcommand)]
pub enum BackupAction {
    Create(CreateBackup),
    List(ListBackups),
    Verify(VerifyBackups),
    Restore(RestoreBackup),
    Remove(RemoveBackups),
}

/// Make a backup of the store; the directory is created if it is missing
#[derive(Debug, Args)]
#[command(after_help = "\
The store must not be open in another process: a program that has it open makes its own backups (`Db::backup`), while it writes.

The command may be killed at any time: the earlier backups stay whole, and the next one removes what was left.

Examples:
  alluvium --db /tmp/store backup create /tmp/backups
  alluvium --db /tmp/store backup create /tmp/backups --check-shared --json")]
pub struct CreateBackup {
    /// The directory of the backups
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Read the files that earlier backups have, too, and copy those again that are damaged there
    #[arg(long)]
    pub check_shared: bool,
}

/// List the backups in a directory, oldest first
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  alluvium backup list /tmp/backups")]
pub struct ListBackups {
    /// The directory of the backups
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// Read the files of one backup, or of all, and compare their checksums; exit code 3 if there is any damage
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alluvium backup verify /tmp/backups
  alluvium backup verify /tmp/backups latest --json")]
pub struct VerifyBackups {
    /// The directory of the backups
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The id of a backup, or latest [default: all]
    #[arg(value_name = "ID", value_parser = parse_id)]
    pub id: Option<Id>,
}

/// Make a store of a backup; checksums are compared meanwhile
#[derive(Debug, Args)]
#[command(after_help = "\
The command may be killed at any time: then the target is no store, and says so when it is opened.

Examples:
  alluvium backup restore /tmp/backups latest /tmp/restored
  alluvium backup restore /tmp/backups 3 /tmp/restored")]
pub struct RestoreBackup {
    /// The directory of the backups
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The id of the backup, or latest
    #[arg(value_name = "ID", value_parser = parse_id)]
    pub id: Id,
    /// The directory of the store: empty, or missing
    #[arg(value_name = "TARGET")]
    pub target: PathBuf,
}

/// Remove a backup, or all but the newest, with the files that no other backup needs
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").args(["id", "keep"]).required(true)), after_help = "\
Examples:
  alluvium backup remove /tmp/backups 3
  alluvium backup remove /tmp/backups --keep 7")]
pub struct RemoveBackups {
    /// The directory of the backups
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The id of the backup, or latest
    #[arg(value_name = "ID", value_parser = parse_id)]
    pub id: Option<Id>,
    /// Remove all backups but the newest N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub keep: Option<u64>,
}

/// Which backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    /// The one with the highest id.
    Latest,
    /// The one with this id.
    Number(u64),
}

fn parse_id(text: &str) -> Result<Id, String> {
    if text == "latest" {
        return Ok(Id::Latest);
    }
    let expected = |_: ParseIntError| "expected the id of a backup, such as 3, or latest".to_string();
    text.parse().map(Id::Number).map_err(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_number_or_latest() {
        assert_eq!(parse_id("latest"), Ok(Id::Latest));
        assert_eq!(parse_id("12"), Ok(Id::Number(12)));
        for other in ["", "-1", "first", "1.5"] {
            assert!(parse_id(other).is_err(), "{other}");
        }
    }
}
