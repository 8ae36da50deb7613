//! Ingest: sorted pairs that enter a store at once.

use crate::keys::whole;
use crate::octets::Octets;
use crate::view::View;
use alluvium::Ingest;
use pyo3::prelude::*;

/// Pairs of at least this many bytes are passed to the store together, detached.
const CHUNK_BYTES: usize = 1 << 20;

/// Copies of pairs.
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Ingests the pairs of an iterable, whose keys ascend. Returns their number. Nothing of the store is held while the iterable
/// runs, except the ingest, which a closed store refuses.
pub fn ingest(py: Python<'_>, view: &View, pairs: &Bound<'_, PyAny>) -> PyResult<u64> {
    let place = view.place();
    let mut ingest = view.call(py, |engine| Ok(engine.keyspace(place)?.ingest()?))?;
    let (mut chunk, mut bytes) = (Pairs::new(), 0);
    for pair in pairs.try_iter()? {
        let (key, value): (Octets<'_>, Octets<'_>) = pair?.extract()?;
        bytes += key.len() + value.len();
        chunk.push((whole(view.prefix(), &key).into_owned(), value.to_vec()));
        if bytes >= CHUNK_BYTES {
            ingest = put_all(view, py, ingest, std::mem::take(&mut chunk))?;
            bytes = 0;
        }
    }
    view.call(py, move |_| {
        ingest.put_all(chunk)?;
        Ok(ingest.commit()?.pairs)
    })
}

fn put_all(view: &View, py: Python<'_>, mut ingest: Ingest, chunk: Pairs) -> PyResult<Ingest> {
    view.call(py, move |_| {
        ingest.put_all(chunk)?;
        Ok(ingest)
    })
}
