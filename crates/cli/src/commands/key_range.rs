//! The key range that `--from`, `--to` and `--prefix` describe.

use crate::arguments::{Common, KeyRange};
use crate::failure::Failure;
use std::ops::Bound;

/// A range of keys.
pub type Range = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The intersection of `--from`, `--to` and `--prefix`; `None` if it is empty.
pub fn parse(common: &Common, range: &KeyRange) -> Result<Option<Range>, Failure> {
    let argument = |what, text: &Option<String>| text.as_ref().map(|text| common.argument(what, text)).transpose();
    let prefix = argument("--prefix", &range.prefix)?;
    let from = argument("--from", &range.from)?.max(prefix.clone());
    let to = argument("--to", &range.to)?;
    let to = match (to, prefix.as_deref().and_then(prefix_end)) {
        (Some(to), Some(end)) => Some(to.min(end)),
        (to, end) => to.or(end),
    };
    if matches!((&from, &to), (Some(from), Some(to)) if from >= to) {
        return Ok(None);
    }
    Ok(Some((from.map_or(Bound::Unbounded, Bound::Included), to.map_or(Bound::Unbounded, Bound::Excluded))))
}

/// The first key after all keys that begin with `prefix`, if there is one.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=kept].to_vec();
    end[kept] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::prefix_end;

    #[test]
    fn the_end_of_a_prefix() {
        assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_end(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(prefix_end(b"\xff"), None);
        assert_eq!(prefix_end(b""), None);
    }
}
