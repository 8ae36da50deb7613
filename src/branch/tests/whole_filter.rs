//! The filter that is read as a whole: it knows every key, and few others. (`damage.rs` reads damaged ones.)

use super::harness::{Owned, Store};
use crate::branch::Compression;
use crate::util::hash::{encoded_key_hash, fingerprint};

const KEYS: u64 = 20_000;

fn key(number: u64) -> Vec<u8> {
    [b"\0\0\0\0key", &number.to_be_bytes()[..]].concat()
}

fn print(number: u64) -> u32 {
    fingerprint(encoded_key_hash(&key(number)))
}

#[test]
fn it_has_all_keys_and_few_others() {
    let store = Store::new(Compression::None, 0);
    let entries: Vec<_> = (0..KEYS).map(|number| Owned::put(&key(number), number + 1, b"value")).collect();
    let branch = store.open(&store.write(&entries));
    let filter = branch.whole_filter().unwrap();
    assert!((0..KEYS).all(|number| filter.may_contain(print(number))), "a key is missing");
    let wrong = (KEYS..2 * KEYS).filter(|number| filter.may_contain(print(*number))).count();
    // 9 bits of a remainder: one in 512.
    assert!(wrong < KEYS as usize / 256, "{wrong} of {KEYS} absent keys");
}
