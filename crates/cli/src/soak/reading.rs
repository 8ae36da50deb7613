//! Converts what the store returns to counts of operations, and checks every byte. Each thread has its own.

use super::Broken;
use super::work::Work;

/// Buffers for keys and values.
#[derive(Debug)]
pub struct Reading<'a> {
    work: &'a Work,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'a> Reading<'a> {
    /// Empty buffers.
    pub fn new(work: &'a Work) -> Self {
        Self { work, key: Vec::new(), value: Vec::new() }
    }

    /// The bytes of a key.
    pub fn key(&mut self, writer: u64, key: u64) -> &[u8] {
        self.work.key(writer, key, &mut self.key);
        &self.key
    }

    /// The operation that wrote the value of a key; 0 if there is none.
    pub fn count(&mut self, writer: u64, key: u64, value: Option<&[u8]>) -> Result<u64, Broken> {
        let Some(found) = value else { return Ok(0) };
        let count = Work::count_of(found).unwrap_or_default();
        self.work.value(writer, count, key, &mut self.value);
        if count > 0 && self.value == found {
            return Ok(count);
        }
        let differing = self.value.iter().zip(found).position(|(expected, found)| expected != found);
        Err(Broken(format!(
            "writer {writer}, key {key}: a value that was never written: {} bytes, count {count}; that operation's value has {} \
             bytes; the first difference is at {}",
            found.len(),
            self.value.len(),
            differing.unwrap_or(self.value.len().min(found.len()))
        )))
    }

    /// The key number and the count of a pair.
    pub fn pair(&mut self, writer: u64, key: &[u8], value: &[u8]) -> Result<(u64, u64), Broken> {
        let Some(number) = self.work.key_number(writer, key) else {
            let key = String::from_utf8_lossy(key).into_owned();
            return Err(Broken(format!("writer {writer}: a key that was never written: {key:?}")));
        };
        Ok((number, self.count(writer, number, Some(value))?))
    }

    /// Puts the pairs of a scan into `found`, which has an element for each key from `first` on. They must come in
    /// order, each once.
    pub fn collect(
        &mut self,
        writer: u64,
        first: u64,
        reversed: bool,
        found: &mut [u64],
        pairs: impl Iterator<Item = alluvium::Result<(Vec<u8>, Vec<u8>)>>,
    ) -> Result<u64, Broken> {
        found.fill(0);
        let (mut last, mut scanned) = (None, 0);
        for pair in pairs {
            let (key, value) = pair?;
            let (number, count) = self.pair(writer, &key, &value)?;
            let in_order = last.is_none_or(|last| if reversed { number < last } else { number > last });
            let place = number.checked_sub(first).and_then(|at| found.get_mut(at as usize));
            let (Some(place), true) = (place, in_order) else {
                let why = format!("writer {writer}: a scan from key {first} on returned key {number} behind {last:?}");
                return Err(Broken(why));
            };
            *place = count;
            (last, scanned) = (Some(number), scanned + 1);
        }
        Ok(scanned)
    }
}

#[cfg(test)]
mod tests {
    use super::super::work::SMALL;
    use super::*;

    #[test]
    fn only_what_was_written_is_believed() {
        let mut reading = Reading::new(&SMALL);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        SMALL.key(1, 9, &mut key);
        SMALL.value(1, 77, 9, &mut value);
        assert_eq!(reading.pair(1, &key, &value).unwrap(), (9, 77));
        assert_eq!(reading.count(1, 9, None).unwrap(), 0);
        assert!(reading.pair(0, &key, &value).is_err(), "another writer's key");
        assert!(reading.count(1, 10, Some(&value)).is_err(), "another key's value");
        assert!(reading.count(1, 9, Some(&[])).is_err());
        assert!(reading.count(1, 9, Some(&[0; 8])).is_err());
        let last = value.len() - 1;
        value[last] ^= 1;
        let Broken(why) = reading.count(1, 9, Some(&value)).unwrap_err();
        assert!(why.contains("never written") && why.contains(&format!("difference is at {last}")), "{why}");
    }

    #[test]
    fn a_scan_is_in_order_and_inside() {
        let pair = |number| {
            let (mut key, mut value) = (Vec::new(), Vec::new());
            SMALL.key(0, number, &mut key);
            SMALL.value(0, number + 1, number, &mut value);
            Ok((key, value))
        };
        let mut reading = Reading::new(&SMALL);
        let mut found = [9; 4];
        let mut collect = |numbers: &[u64], reversed| {
            let pairs = numbers.iter().map(|number| pair(*number));
            reading.collect(0, 10, reversed, &mut found, pairs).map(|scanned| (scanned, found))
        };
        assert_eq!(collect(&[10, 12], false).unwrap(), (2, [11, 0, 13, 0]));
        assert_eq!(collect(&[13, 10], true).unwrap(), (2, [11, 0, 0, 14]));
        for (numbers, reversed) in
            [(&[12, 10][..], false), (&[10, 12], true), (&[10, 10], false), (&[9], false), (&[14], true)]
        {
            assert!(collect(numbers, reversed).is_err(), "{numbers:?}");
        }
    }
}
