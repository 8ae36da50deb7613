//! Users by number, with an index by mail address that is always consistent: one transaction changes both, and two
//! users that request the same address at once cannot both get it.
//!
//!     cargo run --release --example secondary_index -- DIRECTORY

use alluvium::{Db, Error, Options, Transaction};
use std::path::Path;

fn main() -> alluvium::Result<()> {
    run(Path::new(&std::env::args().nth(1).unwrap_or_else(|| "secondary_index.store".into())))
}

fn user_key(number: u32) -> String {
    format!("user/{number:08}")
}

fn mail_key(mail: &str) -> String {
    format!("mail/{mail}")
}

/// Gives a user an address; false if another user has it.
fn set_mail(db: &Db, number: u32, mail: &str) -> alluvium::Result<bool> {
    // Runs again after a conflict, so it must read and write only through the transaction.
    db.transact(|transaction: &Transaction| {
        if transaction.get(mail_key(mail))?.is_some_and(|owner| owner != number.to_be_bytes()) {
            return Ok::<_, Error>(false);
        }
        if let Some(old) = transaction.get(user_key(number))? {
            transaction.delete([b"mail/", &old[..]].concat())?;
        }
        transaction.put(user_key(number), mail)?;
        transaction.put(mail_key(mail), number.to_be_bytes())?;
        Ok(true)
    })
}

/// The user of an address: reads the index, then the user, from one snapshot.
fn by_mail(db: &Db, mail: &str) -> alluvium::Result<Option<u32>> {
    let snapshot = db.snapshot();
    let Some(number) = snapshot.get(mail_key(mail))? else { return Ok(None) };
    let number = number.try_into().map_or(0, u32::from_be_bytes);
    let user = snapshot.get(user_key(number))?;
    assert_eq!(user.as_deref(), Some(mail.as_bytes()), "the index and the user always agree");
    Ok(Some(number))
}

/// Runs the example.
pub fn run(directory: &Path) -> alluvium::Result<()> {
    let db = Db::open(directory, Options::default())?;
    // Two threads keep moving forty addresses among forty users.
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2_u32)
            .map(|thread| {
                let db = &db;
                scope.spawn(move || {
                    for step in 0..2_000_u32 {
                        let (user, mail) = (step * 7 % 40, (step * 13 + thread * 5) % 40);
                        set_mail(db, user, &format!("name{mail}@example.org"))?;
                        by_mail(db, &format!("name{}@example.org", step % 40))?;
                    }
                    alluvium::Result::Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    let (users, mails) = (db.prefix("user/")?.keys().count(), db.prefix("mail/")?.keys().count());
    println!("{users} users, {mails} addresses; user of name7@example.org: {:?}", by_mail(&db, "name7@example.org")?);
    println!("{} commits conflicted and were retried", db.stats().conflicts);
    assert_eq!(users, mails, "each user has one address, and each address one user");
    db.close()
}
