//! A model of lock hand-over: a discrete-event simulation of threads, processors, a scheduler and
//! locks.
//!
//! A thread thinks, takes a lock, holds it, and thinks again. The times, the frequency of each lock
//! and the cost of a hand-over come from measurement. The scheduler assigns each processor to the
//! thread that has waited longest, for a time slice. A spinning thread keeps its processor, a
//! sleeping one does not.
//!
//! | kind | next holder after a release | cost with `w` threads spinning on the lock |
//! | --- | --- | --- |
//! | test-and-set | any thread that spins on a processor; a thread that arrives meanwhile | `w` times the cost with one: each attempt takes the cache line away |
//! | with back-off | the thread whose pause ends first; a thread that arrives meanwhile | as with one |
//! | ticket | the next in line, even without a processor | a part for each spinning thread: all their copies of the line are invalidated |
//! | queued | the next in line, even without a processor | as with one: only that thread is notified |
//! | parking | any thread that still spins; otherwise one is woken and tries again | as with one |
//!
//! The engine's own threads use processors too. As far as no processor is idle for them, they delay
//! the creating threads ([`ModelInputs::lost`]).
//!
//! The model leaves out everything else that is shared (memory, group locks), that one thread
//! writes the journal, and that a machine with many processors has several sockets. All locks of
//! one kind are equally likely.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use xfskit_lock::{Kind, PAUSES_MAX};

use super::fit::Factors;
use crate::random::Random;

/// A time in picoseconds. Integer sums are exact, so the order of events is deterministic.
type Time = u64;

/// The locks of one kind in the engine.
#[derive(Clone, Debug)]
pub(super) struct Class {
    /// What the locks protect.
    pub(super) name: String,
    /// Acquisitions per file.
    pub(super) per_file: f64,
    /// Hold time of an acquisition in nanoseconds.
    pub(super) hold: f64,
    /// Number of locks of this kind.
    pub(super) mutexes: u64,
}

/// The properties of machine and workload; times are in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct ModelInputs {
    pub(super) classes: Vec<Class>,
    /// Time of a file outside of these locks.
    pub(super) think: f64,
    /// Processor time of the engine's own threads per file.
    pub(super) background: f64,
    /// From the release of a lock until the thread that waits for it has it.
    pub(super) hand_over: f64,
    pub(super) pause: f64,
    pub(super) spin: f64,
    pub(super) wake: f64,
    pub(super) slice: f64,
}

impl ModelInputs {
    /// Returns the same inputs with one mutex of each kind.
    pub(super) fn unsharded(&self) -> Self {
        let class = |class: &Class| Class { mutexes: 1, ..class.clone() };
        Self { classes: self.classes.iter().map(class).collect(), ..self.clone() }
    }

    /// Returns the same inputs with these factors.
    pub(super) fn scaled(&self, factors: Factors) -> Self {
        Self {
            think: self.think * factors.work,
            hand_over: self.hand_over * factors.hand_over,
            ..self.clone()
        }
    }

    /// Returns the delay of a file by the engine's own threads, which share the processors that are
    /// left.
    #[allow(clippy::cast_precision_loss)] // of some threads
    fn lost(&self, scenario: &Scenario) -> f64 {
        let held: f64 = self.classes.iter().map(|class| class.per_file * class.hold).sum();
        let own = self.think + held;
        let busy = scenario.threads.min(scenario.processors) as f64 / scenario.processors as f64;
        ((own + self.background) * busy - own).clamp(0.0, self.background)
    }
}

/// The result of a simulation.
#[derive(Clone, Copy, Debug)]
pub(super) struct ModelRates {
    /// Files per second.
    pub(super) rate: f64,
    /// Files per second of processor time, which includes spinning and the engine's own threads.
    pub(super) per_processor: f64,
}

/// The parameters of a simulation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scenario {
    pub(super) kind: Kind,
    pub(super) processors: usize,
    pub(super) threads: usize,
    /// Simulated time in nanoseconds.
    pub(super) time: f64,
    /// Limit of events.
    pub(super) events: u64,
    pub(super) seed: u64,
}

/// Simulates the scenario and returns the rates.
#[allow(clippy::cast_precision_loss)] // of a rate
pub(super) fn simulate(inputs: &ModelInputs, scenario: Scenario) -> ModelRates {
    let lost = inputs.lost(&scenario);
    let unpaid = inputs.background - lost;
    let inputs = ModelInputs { think: inputs.think + lost, ..inputs.clone() };
    let mut simulation = Simulation::new(&inputs, scenario);
    simulation.run();
    let taken: f64 = inputs.classes.iter().map(|class| class.per_file).sum();
    let files = simulation.released as f64 / taken;
    let busy = simulation.busy as f64 / 1e12 + files * unpaid / 1e9;
    ModelRates { rate: files / (simulation.now as f64 / 1e12), per_processor: files / busy }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive and far below 2^64
fn picos(nanos: f64) -> Time {
    (nanos * 1000.0) as Time
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Thinking,
    Holding(usize),
    /// Polls this lock.
    Spinning(usize),
    /// Waits for this lock without a processor.
    Asleep(usize),
}

#[derive(Clone, Debug)]
struct Thread {
    doing: Doing,
    /// Remaining time of thinking or holding while the thread does not run.
    left: Time,
    /// The processor on which the thread runs.
    processor: Option<usize>,
    /// End of the current activity while the thread runs, or start of spinning.
    mark: Time,
    /// Changes with the activity, which invalidates earlier events.
    epoch: u64,
}

#[derive(Clone, Debug, Default)]
struct Lock {
    class: usize,
    holder: Option<usize>,
    /// Waiting threads in order of arrival, asleep or not.
    waiting: VecDeque<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A thread has finished thinking or holding.
    Done(usize, u64),
    /// A thread ends spinning and goes to sleep.
    Sleep(usize, u64),
    /// A thread that was woken needs a processor.
    Awake(usize),
    /// A pause ends: a spinning thread may find the lock free.
    Poll(usize),
    /// A time slice ends.
    Slice(usize, u64),
}

struct Simulation<'f> {
    inputs: &'f ModelInputs,
    scenario: Scenario,
    random: Random,
    now: Time,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    number: u64,
    threads: Vec<Thread>,
    locks: Vec<Lock>,
    /// Index of the first lock of each class, and the number of all locks.
    first: Vec<usize>,
    /// The running thread and the number of its time slice.
    processors: Vec<(Option<usize>, u64)>,
    ready: VecDeque<usize>,
    /// Number of busy processors, and their total busy time.
    running: u64,
    busy: Time,
    released: u64,
}

impl<'f> Simulation<'f> {
    fn new(inputs: &'f ModelInputs, scenario: Scenario) -> Self {
        let mut locks = Vec::new();
        let mut first = Vec::new();
        for (class, of) in inputs.classes.iter().enumerate() {
            first.push(locks.len());
            locks.extend((0..of.mutexes).map(|_| Lock { class, ..Lock::default() }));
        }
        first.push(locks.len());
        let thread = Thread { doing: Doing::Thinking, left: 0, processor: None, mark: 0, epoch: 0 };
        let mut simulation = Self {
            inputs,
            scenario,
            random: Random::new(scenario.seed),
            now: 0,
            events: BinaryHeap::new(),
            number: 0,
            threads: vec![thread; scenario.threads],
            locks,
            first,
            processors: vec![(None, 0); scenario.processors],
            ready: (0..scenario.threads).collect(),
            running: 0,
            busy: 0,
            released: 0,
        };
        for thread in 0..scenario.threads {
            simulation.threads[thread].left = simulation.think_time();
        }
        simulation
    }

    fn run(&mut self) {
        for processor in 0..self.processors.len() {
            self.dispatch(processor);
        }
        let end = picos(self.scenario.time);
        while let Some(Reverse((at, number, event))) = self.events.pop() {
            if at > end || number > self.scenario.events {
                break;
            }
            self.busy += (at - self.now) * self.running;
            self.now = at;
            match event {
                Event::Done(thread, epoch) if self.threads[thread].epoch == epoch => {
                    self.done(thread);
                }
                Event::Sleep(thread, epoch) if self.threads[thread].epoch == epoch => {
                    self.sleep(thread);
                }
                Event::Awake(thread) => self.awake(thread),
                Event::Poll(lock) => self.offer(lock),
                Event::Slice(processor, slice) if self.processors[processor].1 == slice => {
                    self.preempt(processor);
                }
                Event::Done(..) | Event::Sleep(..) | Event::Slice(..) => {}
            }
        }
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.number += 1;
        self.events.push(Reverse((at, self.number, event)));
    }

    /// Returns an exponentially distributed time with this mean.
    fn exponential(&mut self, mean: f64) -> Time {
        picos(-mean * (1.0 - self.random.fraction()).ln())
    }

    /// Returns a random time between two locks.
    fn think_time(&mut self) -> Time {
        let locks: f64 = self.inputs.classes.iter().map(|class| class.per_file).sum();
        self.exponential(self.inputs.think / locks)
    }

    /// Picks the next lock: a class by its measured frequency, and any lock of that class.
    fn pick_lock(&mut self) -> usize {
        let all: f64 = self.inputs.classes.iter().map(|class| class.per_file).sum();
        let mut at = self.random.fraction() * all;
        let mut class = 0;
        while class + 1 < self.inputs.classes.len() && at >= self.inputs.classes[class].per_file {
            at -= self.inputs.classes[class].per_file;
            class += 1;
        }
        let (first, end) = (self.first[class], self.first[class + 1]);
        first + self.random.index(end - first)
    }
}

/// Threads and processors.
impl Simulation<'_> {
    /// Assigns a processor to the thread that has waited longest for one.
    fn dispatch(&mut self, processor: usize) {
        let ran = self.processors[processor].0.is_some();
        self.processors[processor].1 += 1;
        self.processors[processor].0 = self.ready.pop_front();
        let runs = self.processors[processor].0.is_some();
        self.running = self.running + u64::from(runs) - u64::from(ran);
        if let Some(thread) = self.processors[processor].0 {
            self.threads[thread].processor = Some(processor);
            let slice = self.processors[processor].1;
            self.schedule(self.now + picos(self.inputs.slice), Event::Slice(processor, slice));
            self.resume(thread);
        }
    }

    fn resume(&mut self, thread: usize) {
        match self.threads[thread].doing {
            Doing::Thinking | Doing::Holding(_) => {
                let left = self.threads[thread].left;
                self.work(thread, left);
            }
            Doing::Spinning(lock) | Doing::Asleep(lock) => {
                self.spin(thread, lock);
                self.offer(lock);
            }
        }
    }

    /// Lets a running thread finish its activity after `time`.
    fn work(&mut self, thread: usize, time: Time) {
        let of = &mut self.threads[thread];
        of.epoch += 1;
        of.mark = self.now + time;
        let (at, epoch) = (of.mark, of.epoch);
        self.schedule(at, Event::Done(thread, epoch));
    }

    /// Starts an activity of length `time`, now or when the thread gets a processor.
    fn begin(&mut self, thread: usize, doing: Doing, time: Time) {
        self.threads[thread].doing = doing;
        self.threads[thread].left = time;
        if self.threads[thread].processor.is_some() {
            self.work(thread, time);
        }
    }

    fn preempt(&mut self, processor: usize) {
        let Some(thread) = self.processors[processor].0 else { return };
        if self.ready.is_empty() {
            let slice = self.processors[processor].1;
            self.schedule(self.now + picos(self.inputs.slice), Event::Slice(processor, slice));
            return;
        }
        let of = &mut self.threads[thread];
        of.left = of.mark.saturating_sub(self.now);
        of.epoch += 1;
        of.processor = None;
        self.ready.push_back(thread);
        self.dispatch(processor);
    }

    fn sleep(&mut self, thread: usize) {
        if let Doing::Spinning(lock) = self.threads[thread].doing {
            self.threads[thread].doing = Doing::Asleep(lock);
            self.threads[thread].epoch += 1;
            if let Some(processor) = self.threads[thread].processor.take() {
                self.dispatch(processor);
            }
        }
    }

    fn awake(&mut self, thread: usize) {
        self.ready.push_back(thread);
        let idle = self.processors.iter().position(|(running, _)| running.is_none());
        if let Some(processor) = idle {
            self.dispatch(processor);
        }
    }
}

/// Locks.
impl Simulation<'_> {
    fn fair(&self) -> bool {
        matches!(self.scenario.kind, Kind::Ticket | Kind::Queued)
    }

    fn done(&mut self, thread: usize) {
        match self.threads[thread].doing {
            Doing::Thinking => self.want(thread),
            Doing::Holding(lock) => self.release(thread, lock),
            Doing::Spinning(_) | Doing::Asleep(_) => {}
        }
    }

    fn want(&mut self, thread: usize) {
        let lock = self.pick_lock();
        let of = &self.locks[lock];
        if of.holder.is_none() && (of.waiting.is_empty() || !self.fair()) {
            self.take(thread, lock, 0);
        } else {
            self.locks[lock].waiting.push_back(thread);
            self.spin(thread, lock);
        }
    }

    /// Gives the lock to a thread, which holds it after the hand-over.
    fn take(&mut self, thread: usize, lock: usize, hand_over: Time) {
        self.locks[lock].holder = Some(thread);
        self.locks[lock].waiting.retain(|waiting| *waiting != thread);
        let hold = self.exponential(self.inputs.classes[self.locks[lock].class].hold);
        self.begin(thread, Doing::Holding(lock), hand_over + hold);
    }

    fn spin(&mut self, thread: usize, lock: usize) {
        let of = &mut self.threads[thread];
        of.doing = Doing::Spinning(lock);
        of.mark = self.now;
        of.epoch += 1;
        let epoch = of.epoch;
        if self.scenario.kind == Kind::Parking {
            self.schedule(self.now + picos(self.inputs.spin), Event::Sleep(thread, epoch));
        }
    }

    fn release(&mut self, thread: usize, lock: usize) {
        self.released += 1;
        self.locks[lock].holder = None;
        let think_time = self.think_time();
        self.begin(thread, Doing::Thinking, think_time);
        self.offer(lock);
    }

    /// Offers a lock that may be free: a waiting thread takes it or is woken for it.
    fn offer(&mut self, lock: usize) {
        if self.locks[lock].holder.is_some() || self.locks[lock].waiting.is_empty() {
            return;
        }
        let spins = |thread: &&usize| {
            let of = &self.threads[**thread];
            of.processor.is_some() && of.doing == Doing::Spinning(lock)
        };
        let spinning: Vec<usize> = self.locks[lock].waiting.iter().filter(spins).copied().collect();
        let hand_over = self.hand_over(spinning.len());
        match self.scenario.kind {
            Kind::Ticket | Kind::Queued => {
                let next = self.locks[lock].waiting[0];
                self.take(next, lock, hand_over);
            }
            Kind::BackOff => self.offer_by_pause(lock, &spinning, hand_over),
            Kind::TestAndSet | Kind::Parking if !spinning.is_empty() => {
                let any = spinning[self.random.index(spinning.len())];
                self.take(any, lock, hand_over);
            }
            Kind::Parking => self.wake(lock),
            Kind::TestAndSet => {}
        }
    }

    /// Gives the lock to the spinning thread that polls next.
    fn offer_by_pause(&mut self, lock: usize, spinning: &[usize], hand_over: Time) {
        let look = |thread: &usize| (self.next_look(self.threads[*thread].mark), *thread);
        match spinning.iter().map(look).min() {
            Some((at, thread)) if at <= self.now => self.take(thread, lock, hand_over),
            Some((at, _)) => self.schedule(at, Event::Poll(lock)),
            None => {}
        }
    }

    /// Returns when a thread that spins since `began` polls the lock, now or later.
    fn next_look(&self, began: Time) -> Time {
        let pause = picos(self.inputs.pause).max(1);
        let (mut at, mut pauses) = (began, 1);
        while at < self.now && pauses < PAUSES_MAX {
            at += pause * Time::from(pauses);
            pauses *= 2;
        }
        let longest = pause * Time::from(PAUSES_MAX);
        at + self.now.saturating_sub(at).div_ceil(longest) * longest
    }

    fn wake(&mut self, lock: usize) {
        let asleep = |thread: &usize| self.threads[*thread].doing == Doing::Asleep(lock);
        let Some(at) = self.locks[lock].waiting.iter().position(asleep) else { return };
        let thread = self.locks[lock].waiting[at];
        // From now on the thread waits for a processor, and must not be woken again.
        self.threads[thread].doing = Doing::Spinning(lock);
        self.schedule(self.now + picos(self.inputs.wake), Event::Awake(thread));
    }

    /// Returns the time until the next thread has the lock.
    #[allow(clippy::cast_precision_loss)] // of some threads
    fn hand_over(&self, spinning: usize) -> Time {
        let others = spinning.saturating_sub(1) as f64;
        picos(match self.scenario.kind {
            Kind::TestAndSet => self.inputs.hand_over * (1.0 + others),
            Kind::Ticket => self.inputs.hand_over * (1.0 + others / 2.0),
            Kind::BackOff | Kind::Queued | Kind::Parking => self.inputs.hand_over,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_inputs(hold: f64, think: f64, mutexes: u64) -> ModelInputs {
        let class = Class { name: "a".into(), per_file: 1.0, hold, mutexes };
        ModelInputs {
            classes: vec![class],
            think,
            background: 0.0,
            hand_over: 50.0,
            pause: 40.0,
            spin: 3_000.0,
            wake: 5_000.0,
            slice: 3e6,
        }
    }

    fn rate(inputs: &ModelInputs, scenario: Scenario) -> f64 {
        simulate(inputs, scenario).rate
    }

    fn scenario(kind: Kind, processors: usize, threads: usize) -> Scenario {
        Scenario { kind, processors, threads, time: 2e7, events: 400_000, seed: 7 }
    }

    #[test]
    fn one_thread_runs_sequentially() {
        for kind in Kind::ALL {
            let rate = rate(&test_inputs(100.0, 900.0, 1), scenario(kind, 1, 1));
            assert!((rate / 1e6 - 1.0).abs() < 0.03, "{kind:?}: {rate}");
        }
    }

    #[test]
    fn processors_add_up_without_contention() {
        for kind in Kind::ALL {
            let rate = rate(&test_inputs(10.0, 990.0, 100_000), scenario(kind, 8, 8));
            assert!((rate / 8e6 - 1.0).abs() < 0.03, "{kind:?}: {rate}");
        }
    }

    #[test]
    fn background_threads_reduce_the_rate_if_no_processor_is_idle() {
        let inputs = ModelInputs { background: 500.0, ..test_inputs(10.0, 990.0, 100_000) };
        for (threads, rate, per_processor) in [(1, 1e6, 1e6 / 1.5), (2, 2e6 / 1.5, 1e6 / 1.5)] {
            let rates = simulate(&inputs, scenario(Kind::Parking, 2, threads));
            assert!((rates.rate / rate - 1.0).abs() < 0.03, "{threads}: {rates:?}");
            assert!((rates.per_processor / per_processor - 1.0).abs() < 0.03, "{rates:?}");
        }
    }

    #[test]
    fn spinning_takes_processor_time_and_sleeping_does_not() {
        let inputs = ModelInputs { spin: 0.0, ..test_inputs(900.0, 100.0, 1) };
        let of = |kind| simulate(&inputs, scenario(kind, 8, 8)).per_processor;
        assert!(of(Kind::Queued) < 2e5, "eight processors for one lock");
        assert!(of(Kind::Parking) > 5e5, "{}", of(Kind::Parking));
    }

    #[test]
    fn a_single_lock_bounds_the_rate() {
        let inputs = test_inputs(500.0, 500.0, 1);
        let of = |kind, processors| rate(&inputs, scenario(kind, processors, processors));
        for kind in Kind::ALL {
            assert!(of(kind, 16) <= 2e6, "{kind:?}: the lock is held half a microsecond");
        }
        assert!(of(Kind::Queued, 64) > 1.5e6, "as fast with many");
        assert!(of(Kind::TestAndSet, 64) < of(Kind::TestAndSet, 8) / 2.0, "the cache line bounces");
        assert!(of(Kind::Ticket, 64) < of(Kind::Queued, 64));
    }

    #[test]
    fn fair_locks_collapse_with_more_threads_than_processors() {
        let inputs = test_inputs(500.0, 500.0, 1);
        let of = |kind| rate(&inputs, Scenario { time: 2e8, ..scenario(kind, 2, 8) });
        assert!(of(Kind::Ticket) < of(Kind::BackOff) / 4.0);
        assert!(of(Kind::Queued) < of(Kind::Parking) / 4.0);
    }

    #[test]
    fn the_same_seed_gives_the_same_simulation() {
        let inputs = test_inputs(200.0, 800.0, 4);
        for kind in Kind::ALL {
            let rates = || rate(&inputs, scenario(kind, 2, 5)).to_bits();
            assert_eq!(rates(), rates(), "{kind:?}");
        }
    }
}
