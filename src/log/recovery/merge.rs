//! Merges the chunks of a generation into one stream of rising numbers, in bounded memory: a chunk is opened when its
//! first number is due, so as many are open as threads wrote at a time. One thread.

use super::chunk::{ChunkCursor, Extent, Stop, first_record};
use super::scan::{SegmentFile, Window};
use crate::base::{Result, SequenceNumber};
use crate::format::log_record::RecordHeader;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// An open chunk reads this much at a time.
const WINDOW_BYTES: usize = 64 << 10;

/// The stream. Stands on the record with the smallest number not yet passed.
#[derive(Debug)]
pub struct Merge<'a> {
    segments: &'a [SegmentFile],
    /// By first number, greatest first.
    unopened: Vec<(Extent, RecordHeader)>,
    /// Open cursors by the number that they stand on.
    heap: BinaryHeap<Reverse<(SequenceNumber, usize)>>,
    cursors: Vec<Option<ChunkCursor>>,
    /// Places in `cursors` without one.
    vacant: Vec<usize>,
    windows: Vec<Window>,
    /// Where reading of each chunk stopped.
    pub stops: Vec<Stop>,
}

impl<'a> Merge<'a> {
    /// Reads the first header of every chunk of the segments.
    pub fn new(segments: &'a [SegmentFile]) -> Result<Self> {
        let mut window = Window::new(1);
        let (mut unopened, mut stops) = (Vec::new(), Vec::new());
        for (index, segment) in segments.iter().enumerate() {
            window.clear();
            let mut chunk = 0;
            while chunk < segment.header.chunks() {
                let (extent, first) = first_record(segments, index, chunk, &mut window)?;
                match first {
                    Some(first) => unopened.push((extent, first)),
                    None => stops.push(Stop { extent, position: extent.start, last: SequenceNumber::ZERO }),
                }
                chunk += (extent.end - extent.start) / segment.header.chunk_bytes;
            }
        }
        unopened.sort_by_key(|(_, first)| Reverse(first.number));
        let (heap, cursors, vacant, windows) = (BinaryHeap::new(), Vec::new(), Vec::new(), Vec::new());
        Ok(Self { segments, unopened, heap, cursors, vacant, windows, stops })
    }

    /// The record to look at, or `None` at the end.
    pub fn current(&mut self) -> Option<&mut ChunkCursor> {
        while let Some((_, first)) = self.unopened.last()
            && self.heap.peek().is_none_or(|Reverse((due, _))| first.number <= *due)
        {
            self.open();
        }
        let Reverse((_, place)) = self.heap.peek()?;
        self.cursors[*place].as_mut()
    }

    fn open(&mut self) {
        let Some((extent, first)) = self.unopened.pop() else { return };
        let window = self.windows.pop().unwrap_or_else(|| Window::new(WINDOW_BYTES));
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.cursors.push(None);
            self.cursors.len() - 1
        });
        self.cursors[place] = Some(ChunkCursor::new(extent, first, window));
        self.heap.push(Reverse((first.number, place)));
    }

    /// Passes the present record. Returns where its chunk ended, if it did.
    pub fn advance(&mut self) -> Result<Option<Stop>> {
        let Some(mut top) = self.heap.peek_mut() else { return Ok(None) };
        let Reverse((_, place)) = *top;
        let Some(cursor) = self.cursors[place].as_mut() else { unreachable!("the heap names open cursors only") };
        let stop = cursor.advance(self.segments)?;
        if stop.is_none() {
            *top = Reverse((cursor.header().number, place));
        } else {
            PeekMut::pop(top);
            self.close(place);
        }
        self.stops.extend(stop);
        Ok(stop)
    }

    /// Reads the present record's chunk no further.
    pub fn stop(&mut self) {
        let Some(Reverse((number, place))) = self.heap.pop() else { return };
        let last = SequenceNumber(number.0 - 1);
        self.stops.extend(self.cursors[place].as_ref().map(|cursor| cursor.stop(last)));
        self.close(place);
    }

    fn close(&mut self, place: usize) {
        if let Some(cursor) = self.cursors[place].take() {
            let mut window = cursor.into_window();
            window.clear();
            self.windows.push(window);
            self.vacant.push(place);
        }
    }
}
