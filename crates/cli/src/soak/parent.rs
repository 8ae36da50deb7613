//! The parent: starts the rounds, checks their resource use, ends them and reports. Single-threaded; it ends children
//! only through their handles.

use super::board::{Board, PHASES, Total};
use super::directory::SoakDirectory;
use super::limits::{Limits, ResourceUse};
use super::plan::{End, Plan};
use super::report::{Ends, Progress};
use super::work::Work;
use crate::duration::format_duration;
use crate::failure::Failure;
use crate::output::Output;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The longest round; a round also takes at most a quarter of the soak's duration.
const ROUND_MAX: Duration = Duration::from_secs(15);
const REPORT_EVERY: Duration = Duration::from_secs(60);
const SAMPLE_EVERY: Duration = Duration::from_millis(200);
const DISK_EVERY: Duration = Duration::from_secs(2);
/// A child hangs if no counter changes for this long, or if it does not close within this time.
const HANG: Duration = Duration::from_secs(180);

/// The arguments besides the workload.
#[derive(Clone, Copy, Debug)]
pub struct SoakArguments {
    /// The duration of the soak.
    pub duration: Duration,
    /// Whether the output is JSON.
    pub json: bool,
}

/// Runs a soak to its end.
pub fn soak(place: SoakDirectory, work: &Work, arguments: &SoakArguments) -> Result<(), Failure> {
    let board = Board::open(place.path())?;
    let now = Instant::now();
    let mut parent = Parent {
        place: &place,
        work,
        arguments,
        board: &board,
        output: Output::new(),
        started: now,
        reported: now,
        ends: Ends::default(),
        peak: ResourceUse::default(),
    };
    parent.begin()?;
    let result = parent.run();
    let progress = parent.progress();
    if arguments.json {
        let failure = result.as_ref().err().map(ToString::to_string);
        let summary = progress.summary(failure.as_deref());
        parent.output.line(summary)?;
    } else {
        let line = progress.line();
        parent.output.line(line)?;
        if result.is_ok() {
            parent.output.line(format!(
                "nothing lost in {}, seed {}",
                format_duration(parent.started.elapsed()),
                work.seed
            ))?;
        }
    }
    parent.output.finish()?;
    match result {
        Ok(()) => place.leave(),
        Err(Failure::Broken(why)) => {
            let seed = work.seed;
            Err(Failure::Broken(format!(
                "{why}\nseed {seed}; the store and the files of the soak are kept in {}",
                place.keep().display()
            )))
        }
        Err(other) => Err(other),
    }
}

struct Parent<'a> {
    place: &'a SoakDirectory,
    work: &'a Work,
    arguments: &'a SoakArguments,
    board: &'a Board,
    output: Output,
    started: Instant,
    reported: Instant,
    ends: Ends,
    peak: ResourceUse,
}

impl Parent<'_> {
    fn begin(&mut self) -> Result<(), Failure> {
        if !self.arguments.json {
            let Work { seed, threads, keys, value_size, memory } = *self.work;
            self.output.line(format!(
                "soak --for {} --seed {seed} --threads {threads} --keys {keys} --value-size {value_size} --memory {memory}, in {}",
                format_duration(self.arguments.duration),
                self.place.path().display()
            ))?;
            self.output.flush()?;
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), Failure> {
        while self.started.elapsed() < self.arguments.duration {
            let round = self.next_round();
            let plan = Plan::new(self.work, round, ROUND_MAX.min(self.arguments.duration / 4));
            let rest = self.arguments.duration.saturating_sub(self.started.elapsed());
            let (after, end) = if plan.after < rest { (plan.after, plan.end) } else { (rest, End::Close) };
            self.run_round(round, &plan, after, end)?;
        }
        // The last child is told to close before it has opened the store: it opens it, checks the contents, verifies
        // every byte and closes.
        let round = self.next_round();
        let plan = Plan::new(self.work, round, Duration::ZERO);
        self.run_round(round, &plan, Duration::ZERO, End::Close)
    }

    fn next_round(&self) -> u64 {
        self.board.total(Total::Rounds).fetch_add(1, Ordering::AcqRel)
    }

    fn run_round(&mut self, round: u64, plan: &Plan, after: Duration, end: End) -> Result<(), Failure> {
        let mut child = self.start(round)?;
        let result = self.watch(&mut child, plan, after, end);
        if result.is_err() {
            // It may have exited already.
            let _ = child.kill();
        }
        let waited = child.wait();
        match (result, end) {
            (Err(Failure::Broken(why)), _) => {
                let messages = std::fs::read_to_string(self.place.child_messages()).unwrap_or_default();
                let messages = messages.trim().trim_start_matches("alluvium: ");
                let round = format!("round {round}");
                let parts: Vec<&str> = [&round, &why, messages].into_iter().filter(|part| !part.is_empty()).collect();
                Err(Failure::Broken(format!("{}\noptions of that round: {:?}", parts.join(": "), plan.options)))
            }
            (Err(other), _) => Err(other),
            (Ok(()), _) => {
                waited.map(|_| ()).map_err(|error| Failure::Usage(format!("cannot wait for a child: {error}")))
            }
        }
    }

    fn start(&self, round: u64) -> Result<Child, Failure> {
        self.board.total(Total::Phase).store(0, Ordering::Release);
        let failed = |error: std::io::Error| Failure::Usage(format!("cannot start a child: {error}"));
        let messages = std::fs::File::create(self.place.child_messages()).map_err(failed)?;
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.arg("--db").arg(self.place.path()).args(["soak", "--child", &round.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(messages);
        command.spawn().map_err(failed)
    }

    /// Monitors a child until it ends, and ends it at the planned time. The error says what went wrong.
    fn watch(&mut self, child: &mut Child, plan: &Plan, after: Duration, end: End) -> Result<(), Failure> {
        let started = Instant::now();
        let (mut counted, mut counted_at) = (self.counts(), started);
        let (mut sampled, mut disk_sampled) = (started, started);
        let mut closing = None;
        loop {
            let waiting = |error| Failure::Usage(format!("cannot wait for a child: {error}"));
            if let Some(status) = child.try_wait().map_err(waiting)? {
                return self.ended(status, closing.is_some());
            }
            if started.elapsed() >= after && closing.is_none() {
                match end {
                    End::Kill => {
                        child.kill().map_err(|error| Failure::Usage(format!("cannot kill a child: {error}")))?;
                        self.ends.kills += 1;
                        return Ok(());
                    }
                    End::Close => {
                        drop(child.stdin.take());
                        closing = Some(Instant::now());
                    }
                }
            }
            let now = Instant::now();
            if now.duration_since(sampled) >= SAMPLE_EVERY {
                sampled = now;
                let mut usage = ResourceUse::of_process(child.id());
                if now.duration_since(disk_sampled) >= DISK_EVERY {
                    disk_sampled = now;
                    usage.disk = ResourceUse::disk_of(&self.place.store());
                }
                self.check_limits(usage, plan)?;
                let counts = self.counts();
                if counts != counted {
                    (counted, counted_at) = (counts, now);
                }
                if now.duration_since(counted_at) > HANG
                    || closing.is_some_and(|since| now.duration_since(since) > HANG)
                {
                    let phase = PHASES.get(self.board.get(Total::Phase) as usize).copied().unwrap_or_default();
                    return Err(Failure::Broken(format!("hangs while {phase}, for {} s", HANG.as_secs())));
                }
            }
            self.report()?;
            let left = after.saturating_sub(started.elapsed());
            let pause = if closing.is_some() || left.is_zero() { Duration::from_millis(5) } else { left };
            std::thread::sleep(pause.min(Duration::from_millis(50)));
        }
    }

    fn ended(&mut self, status: ExitStatus, arguments: bool) -> Result<(), Failure> {
        if status.success() && arguments {
            self.ends.closes += 1;
            return Ok(());
        }
        Err(Failure::Broken(match status.code() {
            Some(4) => String::new(),
            _ => format!("the child exited unexpectedly, {status}"),
        }))
    }

    /// The sum of all counters that grow while a child does not hang.
    fn counts(&self) -> u64 {
        let totals = [Total::Phase, Total::Opened, Total::Gets, Total::Scanned, Total::Verified];
        let totals = totals.into_iter().map(|total| self.board.get(total));
        let writes = (0..self.work.threads).map(|writer| self.board.acknowledged(writer).load(Ordering::Acquire));
        totals.chain(writes).fold(0, u64::wrapping_add)
    }

    fn check_limits(&mut self, usage: ResourceUse, plan: &Plan) -> Result<(), Failure> {
        self.peak = self.peak.most(usage);
        let run_round = self.board.get(Total::LiveBytes);
        let exceeded = Limits::new(self.work, plan.budget, plan.workers, run_round).exceeded(&usage);
        exceeded.map_or(Ok(()), |what| Err(Failure::Broken(what)))
    }

    fn report(&mut self) -> Result<(), Failure> {
        if self.reported.elapsed() < REPORT_EVERY {
            return Ok(());
        }
        self.reported += REPORT_EVERY;
        let progress = self.progress();
        if self.arguments.json {
            let value = progress.json();
            self.output.line(value)?;
        } else {
            let line = progress.line();
            self.output.line(line)?;
        }
        self.output.flush()
    }

    fn progress(&self) -> Progress<'_> {
        Progress {
            elapsed: self.started.elapsed(),
            ends: self.ends,
            peak: self.peak,
            work: self.work,
            board: self.board,
        }
    }
}
