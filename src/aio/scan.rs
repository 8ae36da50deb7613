//! Pairs in order as a stream.

use crate::db::iter::Iter;
use crate::util::{Error, Result};
use blocking::{Task, unblock};
use futures_core::Stream;
use futures_core::stream::FusedStream;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A scan's first round brings so many pairs, each further one twice as many as the one before, up to the most.
const PAIRS_FIRST: usize = 16;
const PAIRS_MAX: usize = 1024;
/// A round ends once keys and values come to so many bytes.
const BYTES_MAX: usize = 1 << 20;

type Pair = (Vec<u8>, Vec<u8>);

/// The pairs of a range in order, as a `Stream`. They are read in rounds on other threads, when they are asked for; a round is small
/// first, so that a short scan reads little, and holds at most a MiB and one pair. The stream ends behind an error.
///
/// As an `Iter` it keeps the versions of its snapshot, and nothing else while nobody asks.
#[must_use = "a scan does nothing until it is polled"]
pub struct Scan {
    state: State,
    /// Pairs that were read and not given out yet, and the error behind them.
    pairs: VecDeque<Pair>,
    failed: Option<Error>,
    backward: bool,
    count: usize,
}

enum State {
    Idle(Iter),
    Reading(Task<Round>),
    Over,
}

/// What a round brought; the iterator where there may be more.
struct Round {
    pairs: VecDeque<Pair>,
    rest: Result<Option<Iter>>,
}

impl Scan {
    /// The pairs that an iterator has left to give, in order.
    pub fn new(iter: Iter) -> Self {
        Self::of(iter, false)
    }

    /// The same from the last to the first.
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
        Self { state: State::Idle(iter), pairs: VecDeque::new(), failed: None, backward, count: PAIRS_FIRST }
    }
}

/// Reads up to so many pairs.
fn read(mut iter: Iter, backward: bool, count: usize) -> Round {
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
