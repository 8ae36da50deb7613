//! Gets of several keys: those that need not wait on the polling thread, and then the others together on another one.

use crate::util::Result;

/// The values of keys, in their order. `at_once` returns `None` for a key that `later` must read.
pub(super) async fn multi_get<K: AsRef<[u8]>>(
    keys: &[K],
    at_once: impl Fn(&[u8]) -> Result<Option<Option<Vec<u8>>>>,
    later: impl AsyncFnOnce(Vec<Vec<u8>>) -> Result<Vec<Option<Vec<u8>>>>,
) -> Result<Vec<Option<Vec<u8>>>> {
    let (mut values, mut places, mut missing) = (Vec::with_capacity(keys.len()), Vec::new(), Vec::new());
    for (place, key) in keys.iter().enumerate() {
        let found = at_once(key.as_ref())?;
        if found.is_none() {
            places.push(place);
            missing.push(key.as_ref().to_vec());
        }
        values.push(found.flatten());
    }
    if !missing.is_empty() {
        let found = later(missing).await?;
        places.into_iter().zip(found).for_each(|(place, value)| values[place] = value);
    }
    Ok(values)
}
