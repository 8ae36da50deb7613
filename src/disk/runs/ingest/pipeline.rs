//! The stages of an ingest: the caller's thread collects pairs in blocks, a thread builds branch files of them, another
//! writes these to the disk. So an ingest takes as long as its slowest stage, not as all of them together. Few pairs, and
//! those of a store without threads, are built by the caller.
//!
//! The caller hands blocks over through one channel and gets them back, empty, through another. At most `BLOCKS` are on
//! their way, so the caller waits when the other stages are behind.
//!
//! A failure of a later stage ends its thread, which drops its end of the channel. The caller notices with the next block,
//! and takes the error from the thread. If the pipeline is dropped, the thread ends without a result, and its files go.

use super::pairs::{Pair, PairBlock};
use super::writer::{CompleteParts, IngestWriter};
use crate::util::fork::ForkCount;
use crate::util::sync::{Arc, AtomicU64, Ordering};
use crate::util::{Error, Result};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// Bytes of a block.
const BLOCK_BYTES: u64 = 256 << 10;
/// Blocks that wait for the thread that builds.
const BLOCKS: usize = 4;

/// See the module.
pub struct IngestPipeline {
    stage: Stage,
    /// Pairs that were not handed over.
    block: PairBlock,
}

enum Stage {
    /// The caller builds, with each pair.
    Direct(Box<IngestWriter>),
    /// There were so few pairs so far that they are all in the block.
    Few(Box<IngestWriter>),
    /// A thread builds.
    Thread(Builder),
    Failed,
}

/// The thread that builds.
struct Builder {
    /// The process that has the thread.
    process: ForkCount,
    /// `None` only while it is dropped.
    filled: Option<SyncSender<Message>>,
    empty: Receiver<PairBlock>,
    /// Bytes of files so far, and of blocks that were handed over.
    bytes: Arc<Bytes>,
    thread: Option<JoinHandle<Result<Option<CompleteParts>>>>,
}

#[derive(Default)]
struct Bytes {
    built: AtomicU64,
    waiting: AtomicU64,
}

enum Message {
    Begin(Box<IngestWriter>),
    Block(PairBlock),
    /// There are no more pairs.
    End,
}

impl IngestPipeline {
    /// A pipeline that ends in a writer without a file; with threads if it may have some.
    pub fn new(writer: IngestWriter, may_have_threads: bool) -> Self {
        let writer = Box::new(writer);
        let stage = if may_have_threads { Stage::Few(writer) } else { Stage::Direct(writer) };
        Self { stage, block: PairBlock::default() }
    }

    /// Adds a pair, whose encoded key is greater than all before. An error may be that of an earlier pair; nothing can be
    /// added after it.
    pub fn add(&mut self, pair: Pair<'_>) -> Result<()> {
        if let Stage::Direct(writer) = &mut self.stage {
            return writer.add(pair);
        }
        self.block.push(pair);
        if self.block.bytes() < BLOCK_BYTES {
            return Ok(());
        }
        self.stage = match std::mem::replace(&mut self.stage, Stage::Failed) {
            Stage::Few(writer) => begin(writer),
            other => other,
        };
        self.hand_over()
    }

    fn hand_over(&mut self) -> Result<()> {
        match &mut self.stage {
            Stage::Direct(writer) | Stage::Few(writer) => {
                self.block.iter().try_for_each(|pair| writer.add(pair))?;
                self.block.clear();
                Ok(())
            }
            Stage::Thread(builder) => {
                let empty = builder.empty.try_recv().unwrap_or_default();
                let block = std::mem::replace(&mut self.block, empty);
                builder.bytes.waiting.fetch_add(block.bytes(), Ordering::Relaxed);
                builder.send(Message::Block(block))
            }
            Stage::Failed => Err(failed_before()),
        }
    }

    /// Bytes of files so far, and of pairs that will be in files, about.
    pub fn bytes(&self) -> u64 {
        let behind = match &self.stage {
            Stage::Direct(writer) | Stage::Few(writer) => writer.bytes(),
            Stage::Thread(Builder { bytes, .. }) => {
                bytes.built.load(Ordering::Relaxed) + bytes.waiting.load(Ordering::Relaxed)
            }
            Stage::Failed => 0,
        };
        behind + self.block.bytes()
    }

    /// Completes the last file.
    pub fn finish(mut self) -> Result<CompleteParts> {
        self.hand_over()?;
        match self.stage {
            Stage::Direct(writer) | Stage::Few(writer) => writer.finish(),
            Stage::Thread(mut builder) => {
                builder.send(Message::End)?;
                builder.end()?.ok_or_else(failed_before)
            }
            Stage::Failed => Err(failed_before()),
        }
    }
}

/// Starts the threads, unless the system refuses one.
fn begin(writer: Box<IngestWriter>) -> Stage {
    let (filled, messages) = sync_channel(BLOCKS);
    let (returned, empty) = channel();
    let bytes = Arc::new(Bytes::default());
    let thread = std::thread::Builder::new().name("alluvium-ingest".into());
    let thread = thread.spawn({
        let bytes = Arc::clone(&bytes);
        move || build(&messages, &returned, &bytes)
    });
    let Ok(thread) = thread else { return Stage::Direct(writer) };
    let process = ForkCount::current();
    let mut builder = Builder { process, filled: Some(filled), empty, bytes, thread: Some(thread) };
    match builder.send(Message::Begin(Box::new(writer.write_behind()))) {
        Ok(()) => Stage::Thread(builder),
        Err(_) => Stage::Failed,
    }
}

/// What the thread does. Returns the files if all pairs were added.
fn build(messages: &Receiver<Message>, empty: &Sender<PairBlock>, bytes: &Bytes) -> Result<Option<CompleteParts>> {
    let Ok(Message::Begin(mut writer)) = messages.recv() else { return Ok(None) };
    for message in messages {
        match message {
            Message::Begin(_) => unreachable!("it begins once"),
            Message::Block(mut block) => {
                block.iter().try_for_each(|pair| writer.add(pair))?;
                bytes.built.store(writer.bytes(), Ordering::Relaxed);
                bytes.waiting.fetch_sub(block.bytes(), Ordering::Relaxed);
                block.clear();
                // The caller may be gone.
                let _ = empty.send(block);
            }
            Message::End => return writer.finish().map(Some),
        }
    }
    Ok(None)
}

impl Builder {
    fn send(&mut self, message: Message) -> Result<()> {
        let Some(filled) = &self.filled else { return Err(failed_before()) };
        match filled.send(message) {
            Ok(()) => Ok(()),
            // The thread has ended, with an error.
            Err(_) => Err(self.end().err().unwrap_or_else(failed_before)),
        }
    }

    /// Waits for the end of the thread, which ends when it has everything, or after a failure.
    fn end(&mut self) -> Result<Option<CompleteParts>> {
        self.filled = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(built)) => built,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Err(failed_before()),
        }
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        // In a forked child there is no such thread, and it may have held a lock of the channel.
        if !self.process.is_current() {
            std::mem::forget((self.filled.take(), self.thread.take()));
            return;
        }
        self.filled = None;
        if let Some(thread) = self.thread.take() {
            // A panic there is a bug that has printed its message.
            let _ = thread.join();
        }
    }
}

fn failed_before() -> Error {
    Error::InvalidArgument("the ingest has failed before; begin another one".into())
}
