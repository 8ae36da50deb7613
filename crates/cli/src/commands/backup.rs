//! `backup`: makes, lists, verifies, restores and removes backups, with progress bars.

use super::verify::without_check_hint;
use crate::arguments::Common;
use crate::backup_arguments::{
    Backup, BackupAction, CreateBackup, Id, ListBackups, RemoveBackups, RestoreBackup, VerifyBackups,
};
use crate::failure::{Failure, message_of};
use crate::output::Output;
use crate::progress::CheckBar;
use crate::report::{Report, align_right, grouped, size, table};
use alluvium::{BackupInfo, BackupOptions, BackupVerification, Backups};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Runs the action.
pub fn run(common: &Common, backup: &Backup) -> Result<(), Failure> {
    match &backup.action {
        BackupAction::Create(asked) => create(common, asked),
        BackupAction::List(asked) => list(common, asked),
        BackupAction::Verify(asked) => verify(common, asked),
        BackupAction::Restore(asked) => restore(common, asked),
        BackupAction::Remove(asked) => remove(common, asked),
    }
}

fn create(common: &Common, asked: &CreateBackup) -> Result<(), Failure> {
    let db = common.open_existing()?;
    let (bar, started) = (CheckBar::new(), Instant::now());
    let options = BackupOptions::new().check_shared(asked.check_shared);
    let done = db.backup_with(&asked.directory, &options, &mut |progress| bar.show(progress));
    bar.finish();
    let done = done?;
    db.close()?;
    let mut report = Report::new();
    report
        .count("id", "id", done.id)
        .count("number", "sequence number", done.number)
        .count("files_new", "files copied", done.files_new)
        .size("bytes_new", "bytes copied", done.bytes_new)
        .count("files_shared", "files shared with earlier backups", done.files_shared)
        .size("bytes_shared", "bytes shared with earlier backups", done.bytes_shared)
        .decimal("seconds", "seconds", started.elapsed().as_secs_f64());
    report.print(common.json)
}

fn list(common: &Common, asked: &ListBackups) -> Result<(), Failure> {
    let backups = Backups::open(&asked.directory)?.list()?;
    let mut output = Output::new();
    if common.json {
        let listed: Vec<_> = backups.iter().map(as_json).collect();
        output.line(json!({ "backups": listed }))?;
    } else if backups.is_empty() {
        output.line("There are no backups in the directory.")?;
    } else {
        let mut table = table(&["id", "made at", "sequence number", "files", "bytes", ""]);
        for info in &backups {
            let figures = match &info.damage {
                None => [grouped(info.number), grouped(info.files), size(info.bytes), String::new()],
                Some(damage) => [String::new(), String::new(), String::new(), format!("damaged: {damage}")],
            };
            let front = [info.id.to_string(), info.time.map(utc).unwrap_or_default()];
            table.add_row(front.into_iter().chain(figures));
        }
        for column in [0, 2, 3, 4] {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(comfy_table::CellAlignment::Right);
            }
        }
        output.line(table)?;
    }
    output.finish()
}

fn as_json(info: &BackupInfo) -> Value {
    match &info.damage {
        Some(damage) => json!({ "id": info.id, "damage": damage.to_string() }),
        None => json!({
            "id": info.id,
            "made_at": info.time.map(utc),
            "number": info.number,
            "files": info.files,
            "bytes": info.bytes,
        }),
    }
}

fn verify(common: &Common, asked: &VerifyBackups) -> Result<(), Failure> {
    let backups = Backups::open(&asked.directory)?;
    let ids = match asked.id {
        Some(id) => vec![find(&backups, id)?],
        None => backups.list()?.iter().map(|info| info.id).collect(),
    };
    let bar = CheckBar::new();
    let found = ids.iter().map(|id| Ok((*id, backups.verify_with(*id, &mut |progress| bar.show(progress))?)));
    let found = found.collect::<Result<Vec<_>, alluvium::Error>>();
    bar.finish();
    let found = found?;
    let mut output = Output::new();
    if common.json {
        let checked: Vec<_> = found.iter().map(|(id, found)| verified(*id, found)).collect();
        output.line(json!({ "backups": checked }))?;
    } else {
        let mut table = table(&["id", "files read", "bytes read", "damaged places"]);
        for (id, found) in &found {
            let places = found.damage.len() as u64;
            table.add_row([id.to_string(), grouped(found.files), size(found.bytes), grouped(places)]);
        }
        align_right(&mut table, 0);
        output.line(table)?;
    }
    output.finish()?;
    for (id, found) in &found {
        found.damage.iter().for_each(|damage| eprintln!("backup {id}: {}", without_check_hint(&message_of(damage))));
    }
    match found.iter().map(|(_, found)| found.damage.len() as u64).sum() {
        0 => Ok(()),
        places => Err(Failure::DamagedBackups { places }),
    }
}

fn verified(id: u64, found: &BackupVerification) -> Value {
    let damage: Vec<_> = found.damage.iter().map(|damage| without_check_hint(&damage.to_string())).collect();
    json!({ "id": id, "files": found.files, "bytes": found.bytes, "damage": damage })
}

fn restore(common: &Common, asked: &RestoreBackup) -> Result<(), Failure> {
    let backups = Backups::open(&asked.directory)?;
    let id = find(&backups, asked.id)?;
    let (bar, started) = (CheckBar::new(), Instant::now());
    let done = backups.restore_with(id, &asked.target, &mut |progress| bar.show(progress));
    bar.finish();
    let done = done?;
    let mut report = Report::new();
    report
        .count("id", "id", done.id)
        .count("number", "sequence number", done.number)
        .count("files", "files", done.files)
        .size("bytes", "bytes", done.bytes)
        .decimal("seconds", "seconds", started.elapsed().as_secs_f64());
    report.print(common.json)
}

fn remove(common: &Common, asked: &RemoveBackups) -> Result<(), Failure> {
    let backups = Backups::open(&asked.directory)?;
    let done = match (asked.id, asked.keep) {
        (Some(id), _) => backups.remove(find(&backups, id)?)?,
        (None, keep) => backups.keep_newest(usize::try_from(keep.unwrap_or(u64::MAX)).unwrap_or(usize::MAX))?,
    };
    let mut report = Report::new();
    report.count("backups", "backups removed", done.backups).count("files", "files removed", done.files).size(
        "bytes",
        "bytes removed",
        done.bytes,
    );
    report.print(common.json)
}

/// The id of a backup.
fn find(backups: &Backups, id: Id) -> Result<u64, Failure> {
    match id {
        Id::Number(id) => Ok(id),
        Id::Latest => {
            let latest = backups.list()?.last().map(|info| info.id);
            latest.ok_or_else(|| Failure::Usage("there are no backups in the directory".to_string()))
        }
    }
}

/// A time since 1970 in universal time, as RFC 3339 has it.
fn utc(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March have their leap day at the end. Day 0 is 1 March of the year 0.
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_universal_time() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_735_689_600, "2025-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(Duration::from_secs(seconds)), text);
        }
    }
}
