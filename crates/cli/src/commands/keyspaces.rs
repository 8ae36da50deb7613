//! `keyspaces`: lists the keyspaces, creates one, drops one, or empties one.

use crate::arguments::Common;
use crate::failure::Failure;
use crate::keyspace;
use crate::keyspace_arguments::{CreateKeyspace, KeyspaceAction, Keyspaces};
use crate::output::Output;
use crate::report::table;
use serde_json::json;

/// Runs the action. Only the list prints something.
pub fn run(common: &Common, keyspaces: &Keyspaces) -> Result<(), Failure> {
    match &keyspaces.action {
        None => list(common),
        Some(KeyspaceAction::Create(create_keyspace)) => create(common, create_keyspace),
        Some(KeyspaceAction::Drop(drop_keyspace)) => drop_one(common, &drop_keyspace.name),
        Some(KeyspaceAction::Clear(clear_keyspace)) => clear(common, &clear_keyspace.name),
    }
}

fn list(common: &Common) -> Result<(), Failure> {
    let names = common.open_to_read()?.keyspace_names()?;
    let mut output = Output::new();
    if common.json {
        output.line(json!({ "keyspaces": names }))?;
    } else if names.is_empty() {
        output.line("The store has no keyspaces but the default one.")?;
    } else {
        let mut table = table(&["keyspace"]);
        for name in &names {
            table.add_row([printable(name)]);
        }
        output.line(table)?;
    }
    output.finish()
}

/// The name without characters that a terminal acts on.
fn printable(name: &str) -> String {
    name.chars().flat_map(|char| if char.is_control() { char.escape_default().collect() } else { vec![char] }).collect()
}

fn create(common: &Common, create: &CreateKeyspace) -> Result<(), Failure> {
    let db = common.open_or_create()?;
    db.keyspace(&create.name, keyspace::options(create.operator, create.durability))?;
    Ok(db.close()?)
}

fn drop_one(common: &Common, name: &str) -> Result<(), Failure> {
    common.refuse_other_order()?;
    let db = common.open_existing()?;
    if !db.drop_keyspace(name)? {
        return Err(keyspace::unknown(name, &db.keyspace_names()?));
    }
    Ok(db.close()?)
}

fn clear(common: &Common, name: &str) -> Result<(), Failure> {
    common.refuse_other_order()?;
    let db = common.open_existing()?;
    keyspace::find(&db, name, None)?.delete_range_with(.., common.write_options())?;
    Ok(db.close()?)
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn names_do_not_act_on_the_terminal() {
        assert_eq!(printable("Flüsse"), "Flüsse");
        assert_eq!(printable("a\u{1b}[2J\nb"), "a\\u{1b}[2J\\nb");
    }
}
