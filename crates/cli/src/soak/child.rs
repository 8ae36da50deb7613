//! The child process of one round: opens the store, checks its contents, and works until it is time to close. The
//! parent holds the child's standard input open; its end means that it is time to close. That also covers the death of
//! the parent.

use super::Broken;
use super::board::{Board, Total};
use super::directory::SoakDirectory;
use super::model::Model;
use super::observer::Observer;
use super::plan::Plan;
use super::reading::Reading;
use super::work::Work;
use super::writer::{Shared, Writer};
use alluvium::Db;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Runs one round to its end. The parent may kill the process at any instant.
pub fn run_round(directory: &SoakDirectory, round: u64) -> Result<(), Broken> {
    let work = directory.work()?;
    let board = Board::open(directory.path())?;
    let plan = Plan::new(&work, round, Duration::ZERO);
    let stop = Arc::new(AtomicBool::new(false));
    let stop_signal = Arc::clone(&stop);
    std::thread::spawn(move || {
        // The parent writes nothing to it: any result, even an error, is the end.
        let _ = std::io::stdin().read(&mut [0; 1]);
        stop_signal.store(true, Ordering::Release);
    });
    let (db, models) = open(directory, &work, &board, &plan)?;
    if plan.verify || stop.load(Ordering::Acquire) {
        db.verify()?;
        board.add(Total::Verified, 1);
    }
    phase(&board, 3);
    let shared = Shared { work: &work, db: &db, board: &board, stop: &stop };
    run(&shared, models, round)?;
    phase(&board, 4);
    db.close()?;
    for writer in 0..work.threads {
        board.synced(writer).store(board.acknowledged(writer).load(Ordering::Acquire), Ordering::Release);
    }
    Ok(())
}

fn phase(board: &Board, phase: u64) {
    board.total(Total::Phase).store(phase, Ordering::Release);
}

/// Opens the store and finds out how many operations of each writer it holds.
fn open(directory: &SoakDirectory, work: &Work, board: &Board, plan: &Plan) -> Result<(Db, Vec<Model>), Broken> {
    phase(board, 1);
    let mut models = directory.load_models(work)?;
    if plan.options.force_cut {
        board.total(Total::CutPending).store(1, Ordering::Release);
    }
    let started = Instant::now();
    let db = Db::open(directory.store(), plan.options.clone())?;
    board.total(Total::OpenLongest).fetch_max(started.elapsed().as_micros() as u64, Ordering::AcqRel);
    phase(board, 2);
    for model in &mut models {
        catch_up(work, board, &db, model)?;
    }
    board.total(Total::CutPending).store(0, Ordering::Release);
    let run_round = models.iter().map(|model| model.live_bytes(work)).sum();
    board.total(Total::LiveBytes).store(run_round, Ordering::Release);
    directory.save_models(&models)?;
    board.add(Total::Opened, 1);
    Ok((db, models))
}

/// Advances a model to the state that the store holds, if that is an allowed state (`soak/mod.rs`, 3).
fn catch_up(work: &Work, board: &Board, db: &Db, model: &mut Model) -> Result<(), Broken> {
    let writer = model.writer;
    let counter = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Acquire);
    let acknowledged = counter(board.acknowledged(writer));
    let (begun, synced) = (counter(board.begun(writer)), counter(board.synced(writer)));
    let cut = board.get(Total::CutPending) == 1;
    let least = if cut { synced } else { acknowledged };
    if model.done > least || begun < least {
        let done = model.done;
        return Err(Broken(format!("writer {writer}: counts out of order: {done}, {synced}, {acknowledged}, {begun}")));
    }
    let keys = work.keys_each();
    let mut found = vec![0; keys as usize];
    let pairs = db.prefix(Work::prefix(writer))?;
    let scanned = Reading::new(work).collect(writer, 0, false, &mut found, pairs)?;
    board.add(Total::Scanned, scanned);
    model.advance(work, least);
    if !model.advance_to(work, &found, 0..keys, begun) {
        let key = model.difference(&found, 0..keys).unwrap_or_default();
        let kind = if cut { "synced" } else { "acknowledged" };
        return Err(Broken(format!(
            "reopened: writer {writer} had {least} operations {kind} and {begun} begun; the store holds no state between: the \
             first difference to the state after {least} is key {key}: found the value of operation {}, expected {} (0: absent)",
            found[key as usize], model.slots[key as usize]
        )));
    }
    if model.done > acknowledged {
        board.add(Total::InFlight, 1);
    }
    board.add(Total::Cut, acknowledged.saturating_sub(model.done));
    // Opening has made durable what it recovered.
    for counter in [board.acknowledged(writer), board.begun(writer), board.synced(writer)] {
        counter.store(model.done, Ordering::Release);
    }
    Ok(())
}

/// Stops all threads when one ends: on a failure, a panic, or the stop signal.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Runs all threads until it is time to close. The first failure ends them all.
fn run(shared: &Shared<'_>, models: Vec<Model>, round: u64) -> Result<(), Broken> {
    std::thread::scope(|scope| {
        let observer = Observer::new(shared, models.clone(), shared.work.round(!round));
        let mut threads = vec![scope.spawn(move || {
            let _stop = StopOnDrop(shared.stop);
            observer.run()
        })];
        for model in models {
            let writer = Writer::new(shared, model);
            threads.push(scope.spawn(move || {
                let _stop = StopOnDrop(shared.stop);
                writer.run()
            }));
        }
        let mut results = threads.into_iter().map(|thread| match thread.join() {
            Ok(result) => result,
            Err(_) => Err(Broken("a thread panicked".to_string())),
        });
        let first = results.by_ref().find(Result::is_err).unwrap_or(Ok(()));
        results.for_each(drop);
        first
    })
}
