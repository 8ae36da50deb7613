//! `keyspaces`: lists the keyspaces, creates one, changes its options, drops one, or empties one.

use crate::arguments::{Common, Compression};
use crate::duration::format_duration;
use crate::failure::Failure;
use crate::keyspace;
use crate::keyspace_arguments::{Chosen, CreateKeyspace, Durability, KeyspaceAction, Keyspaces, SetKeyspace, Unset};
use crate::output::Output;
use crate::report::table;
use alluvium::KeyspaceOptions;
use serde_json::{Value, json};
use std::time::Duration;

/// Runs the action. Only the list prints something.
pub fn run(common: &Common, keyspaces: &Keyspaces) -> Result<(), Failure> {
    match &keyspaces.action {
        None => list(common),
        Some(KeyspaceAction::Create(create_keyspace)) => create(common, create_keyspace),
        Some(KeyspaceAction::Set(set_keyspace)) => set(common, set_keyspace),
        Some(KeyspaceAction::Drop(drop_keyspace)) => drop_one(common, &drop_keyspace.name),
        Some(KeyspaceAction::Clear(clear_keyspace)) => clear(common, &clear_keyspace.name),
    }
}

fn list(common: &Common) -> Result<(), Failure> {
    let db = common.open_to_read()?;
    let mut keyspaces = Vec::new();
    for name in db.keyspace_names()? {
        let Some(options) = db.keyspace_options(&name)? else { continue };
        keyspaces.push(Listed { operator: db.merge_operator_name(&name)?, name, options });
    }
    let mut output = Output::new();
    if common.json {
        let listed: Vec<_> = keyspaces.iter().map(Listed::as_json).collect();
        output.line(json!({ "keyspaces": listed }))?;
    } else if keyspaces.is_empty() {
        output.line("The store has no keyspaces but the default one.")?;
    } else {
        let mut table = table(&["keyspace", "merge operator", "durability", "compression", "expiry"]);
        for Listed { name, operator, options } in &keyspaces {
            let operator = operator.as_deref().map(printable);
            let durability = options.durability.map(|durability| format!("{durability:?}").to_lowercase());
            let compression = options.compression.map(|compression| format!("{compression:?}").to_lowercase());
            let expiry = options.expiry.map(format_expiry);
            let of_options = [operator, durability, compression, expiry].map(Option::unwrap_or_default);
            table.add_row([printable(name)].into_iter().chain(of_options));
        }
        output.line(table)?;
    }
    output.finish()
}

/// A keyspace with its options. The operator is the stored one, also if the command line does not have it.
struct Listed {
    name: String,
    operator: Option<String>,
    options: KeyspaceOptions,
}

impl Listed {
    /// Options that are the store's are null.
    fn as_json(&self) -> Value {
        let Self { name, operator, options } = self;
        json!({
            "name": name,
            "merge_operator": operator,
            "durability": options.durability.map(|durability| format!("{durability:?}").to_lowercase()),
            "compression": options.compression.map(|compression| format!("{compression:?}").to_lowercase()),
            "expiry_seconds": options.expiry.map(|expiry| expiry.as_secs_f64()),
        })
    }
}

/// An expiry, exactly.
fn format_expiry(expiry: Duration) -> String {
    if expiry.subsec_millis() == 0 { format_duration(expiry) } else { format!("{}ms", expiry.as_millis()) }
}

/// The name without characters that a terminal acts on.
fn printable(name: &str) -> String {
    name.chars().flat_map(|char| if char.is_control() { char.escape_default().collect() } else { vec![char] }).collect()
}

fn create(common: &Common, create: &CreateKeyspace) -> Result<(), Failure> {
    let db = common.open_or_create()?;
    let options = keyspace::options(create.operator)
        .durability(create.durability.map(Durability::for_store))
        .compression(create.compression.map(Compression::for_store));
    let keyspace = keyspace::open(&db, &create.name, options.expiry(create.expiry.and_then(Chosen::ok)))?;
    // For the store, no expiry in the options means the one that the keyspace has.
    if let (Some(Err(Unset)), Some(expiry)) = (create.expiry, keyspace.options()?.expiry) {
        let (name, expiry) = (&create.name, format_expiry(expiry));
        return Err(Failure::Usage(format!(
            "the keyspace {name:?} has the expiry {expiry}, not never; `keyspaces set --expiry never` changes it"
        )));
    }
    Ok(db.close()?)
}

fn set(common: &Common, set: &SetKeyspace) -> Result<(), Failure> {
    if set.durability.is_none() && set.compression.is_none() && set.expiry.is_none() {
        return Err(Failure::Usage("nothing to set: pass --durability, --compression or --expiry".to_string()));
    }
    common.refuse_other_order()?;
    let db = common.open_existing()?;
    let keyspace = keyspace::find(&db, &set.name, None)?;
    let mut options = keyspace.options()?;
    if let Some(durability) = set.durability {
        options = options.durability(durability.ok().map(Durability::for_store));
    }
    if let Some(compression) = set.compression {
        options = options.compression(compression.ok().map(Compression::for_store));
    }
    if let Some(expiry) = set.expiry {
        options = options.expiry(expiry.ok());
    }
    keyspace.set_options(options)?;
    Ok(db.close()?)
}

fn drop_one(common: &Common, name: &str) -> Result<(), Failure> {
    common.refuse_other_order()?;
    let db = common.open_existing()?;
    if !db.drop_keyspace(name)? {
        return Err(keyspace::unknown(name, db.keyspace_names()?));
    }
    Ok(db.close()?)
}

fn clear(common: &Common, name: &str) -> Result<(), Failure> {
    let db = common.open_to_change()?;
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
