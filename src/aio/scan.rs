//! A scan as a stream of pairs in key order.

use crate::db::iter::Iter;
use crate::util::{Error, Result};
use blocking::{Task, unblock};
use futures_core::Stream;
use futures_core::stream::FusedStream;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Pairs that the first round reads. Each further round reads twice as many, up to `PAIRS_MAX`.
const PAIRS_FIRST: usize = 16;
const PAIRS_MAX: usize = 1024;
/// A round ends once its keys and values exceed this size.
const BYTES_MAX: usize = 1 << 20;

type Pair = (Vec<u8>, Vec<u8>);

/// A scan: the pairs of a range in key order, as a `Stream`. Other threads read the pairs in rounds, on demand. The
/// first rounds are small, so that a short scan reads little; a round holds at most one MiB and one pair. After an
/// error the stream ends.
///
/// Like an `Iter`, an idle scan retains the versions of its snapshot, and holds nothing else.
#[must_use = "a scan does nothing until it is polled"]
pub struct Scan {
    state: State,
    /// Pairs that were read but not returned yet.
    pairs: VecDeque<Pair>,
    /// The error that ended the scan, if it was not returned yet.
    failed: Option<Error>,
    backward: bool,
    count: usize,
}

enum State {
    Idle(Box<Iter>),
    Reading(Task<Round>),
    Over,
}

/// The result of a round. `rest` is the iterator, if there may be more pairs.
struct Round {
    pairs: VecDeque<Pair>,
    rest: Result<Option<Box<Iter>>>,
}

impl Scan {
    /// Scans the remaining pairs of an iterator in order.
    pub fn new(iter: Iter) -> Self {
        Self::of(iter, false)
    }

    /// Scans the remaining pairs of an iterator from the last to the first.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use futures_lite::{StreamExt, future::block_on};
    /// db.put("2025", "dry")?;
    /// db.put("2026", "wet")?;
    /// let newest = block_on(alluvium::Scan::backward(db.prefix("20")?).next()).expect("a pair")?;
    /// assert_eq!(newest.0, b"2026");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn backward(iter: Iter) -> Self {
        Self::of(iter, true)
    }

    fn of(iter: Iter, backward: bool) -> Self {
        Self { state: State::Idle(Box::new(iter)), pairs: VecDeque::new(), failed: None, backward, count: PAIRS_FIRST }
    }
}

/// Reads a round of up to `count` pairs.
fn read(mut iter: Box<Iter>, backward: bool, count: usize) -> Round {
    let (mut pairs, mut bytes) = (VecDeque::new(), 0);
    while pairs.len() < count && bytes < BYTES_MAX {
        match if backward { iter.next_back() } else { iter.next() } {
            Some(Ok((key, value))) => {
                bytes += key.len() + value.len();
                pairs.push_back((key, value));
            }
            Some(Err(error)) => return Round { pairs, rest: Err(error) },
            None => return Round { pairs, rest: Ok(None) },
        }
    }
    Round { pairs, rest: Ok(Some(iter)) }
}

impl Stream for Scan {
    type Item = Result<Pair>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(pair) = self.pairs.pop_front() {
                return Poll::Ready(Some(Ok(pair)));
            }
            if let Some(error) = self.failed.take() {
                return Poll::Ready(Some(Err(error)));
            }
            self.state = match std::mem::replace(&mut self.state, State::Over) {
                State::Over => return Poll::Ready(None),
                State::Idle(iter) => {
                    let (backward, count) = (self.backward, self.count);
                    self.count = (count * 2).min(PAIRS_MAX);
                    State::Reading(unblock(move || read(iter, backward, count)))
                }
                State::Reading(mut task) => match Pin::new(&mut task).poll(context) {
                    Poll::Pending => {
                        self.state = State::Reading(task);
                        return Poll::Pending;
                    }
                    Poll::Ready(round) => {
                        self.pairs = round.pairs;
                        match round.rest {
                            Ok(Some(iter)) => State::Idle(iter),
                            Ok(None) => State::Over,
                            Err(error) => {
                                self.failed = Some(error);
                                State::Over
                            }
                        }
                    }
                },
            };
        }
    }
}

impl FusedStream for Scan {
    fn is_terminated(&self) -> bool {
        matches!(self.state, State::Over) && self.pairs.is_empty() && self.failed.is_none()
    }
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan")
            .field("backward", &self.backward)
            .field("read", &self.pairs.len())
            .finish_non_exhaustive()
    }
}
