//! A stream of pairs that other threads read in rounds, on demand.

use crate::util::{Error, Result};
use blocking::{Task, unblock};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Pairs that the first round reads. Each further round reads twice as many, up to `PAIRS_MAX`.
const PAIRS_FIRST: usize = 16;
const PAIRS_MAX: usize = 1024;
/// A round ends once its keys and values exceed this size.
const BYTES_MAX: usize = 1 << 20;

pub(super) type Pair = (Vec<u8>, Vec<u8>);

/// Where the pairs come from.
pub(super) trait Source: Sized + Send + Unpin + 'static {
    /// Reads a round of up to `count` pairs.
    fn read(self, count: usize) -> Round<Self>;
}

/// The result of a round. `rest` is the source of the next one, if there may be more pairs.
pub(super) struct Round<S> {
    pub(super) pairs: VecDeque<Pair>,
    pub(super) rest: Result<Option<S>>,
}

/// The stream.
pub(super) struct Rounds<S> {
    state: State<S>,
    /// Pairs that were read but not returned yet.
    pairs: VecDeque<Pair>,
    /// The error that ended the stream, if it was not returned yet.
    failed: Option<Error>,
    count: usize,
}

enum State<S> {
    Idle(S),
    Reading(Task<Round<S>>),
    Over,
}

impl<S: Source> Rounds<S> {
    pub(super) fn new(source: S) -> Self {
        Self { state: State::Idle(source), pairs: VecDeque::new(), failed: None, count: PAIRS_FIRST }
    }

    /// The number of pairs that were read but not returned yet.
    pub(super) fn read_ahead(&self) -> usize {
        self.pairs.len()
    }

    pub(super) fn is_terminated(&self) -> bool {
        matches!(self.state, State::Over) && self.pairs.is_empty() && self.failed.is_none()
    }

    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Pair>>> {
        loop {
            if let Some(pair) = self.pairs.pop_front() {
                return Poll::Ready(Some(Ok(pair)));
            }
            if let Some(error) = self.failed.take() {
                return Poll::Ready(Some(Err(error)));
            }
            self.state = match std::mem::replace(&mut self.state, State::Over) {
                State::Over => return Poll::Ready(None),
                State::Idle(source) => {
                    let count = self.count;
                    self.count = (count * 2).min(PAIRS_MAX);
                    State::Reading(unblock(move || source.read(count)))
                }
                State::Reading(mut task) => match Pin::new(&mut task).poll(context) {
                    Poll::Pending => {
                        self.state = State::Reading(task);
                        return Poll::Pending;
                    }
                    Poll::Ready(round) => {
                        self.pairs = round.pairs;
                        match round.rest {
                            Ok(Some(source)) => State::Idle(source),
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

/// Takes the pairs of one round from an iterator. Returns them, and whether there may be more.
pub(super) fn take_round(
    mut next: impl FnMut() -> Option<Result<Pair>>,
    count: usize,
) -> (VecDeque<Pair>, Result<bool>) {
    let (mut pairs, mut bytes) = (VecDeque::new(), 0);
    while pairs.len() < count && bytes < BYTES_MAX {
        match next() {
            Some(Ok((key, value))) => {
                bytes += key.len() + value.len();
                pairs.push_back((key, value));
            }
            Some(Err(error)) => return (pairs, Err(error)),
            None => return (pairs, Ok(false)),
        }
    }
    (pairs, Ok(true))
}
