//! A model of lock hand-over: threads, processors, a scheduler, locks; events in the order of time.
//!
//! A thread thinks, takes a lock, holds it, and thinks again. How long, how often which lock, and what handing
//! over costs come from measurement. The scheduler gives each processor the thread that has waited longest for
//! one, for a slice of time. Who spins keeps the processor meanwhile, who sleeps does not.
//!
//! | kind | on release | takes, with `w` threads spinning on it |
//! | --- | --- | --- |
//! | test-and-set | any that spins on a processor; anybody who comes meanwhile | `w` times what it takes with one: each attempt takes the cache line away |
//! | with back-off | whose pause ends first; anybody who comes meanwhile | as with one |
//! | ticket | the next, even if he has no processor | a share for each who spins: all their copies of the line go |
//! | queued | the next, even if he has no processor | as with one: he alone is told |
//! | parking | any that still spins; else one is woken, and tries again | as with one |
//!
//! The engine's own threads take processors too: as far as none is idle for them, a file's thread has to wait for
//! theirs ([`Facts::lost`]).
//!
//! What it leaves out: everything that is shared besides these locks (memory, locks of groups), that one thread
//! writes the journal, and that a machine of many processors has several sockets. Locks of one kind are equally
//! likely.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use xfskit_lock::{Kind, PAUSES_MAX};

use crate::random::Random;

/// A time in picoseconds: sums of them are exact, so events have one order.
type Time = u64;

/// Locks of one kind in the engine.
#[derive(Clone, Debug)]
pub(super) struct Class {
    /// What they guard.
    pub(super) name: String,
    /// Times one is taken for a file.
    pub(super) per_file: f64,
    /// Held each time, in nanoseconds.
    pub(super) hold: f64,
    /// How many there are.
    pub(super) mutexes: u64,
}

/// What the model knows of machine and work; times in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) classes: Vec<Class>,
    /// A file's time outside of these locks.
    pub(super) think: f64,
    /// Processor time of the engine's own threads for a file.
    pub(super) background: f64,
    /// A lock taken and given back while another processor wants it.
    pub(super) hand_over: f64,
    pub(super) pause: f64,
    pub(super) spin: f64,
    pub(super) wake: f64,
    pub(super) slice: f64,
}

impl Facts {
    /// The same, were there but one mutex of each kind.
    pub(super) fn unsharded(&self) -> Self {
        let class = |class: &Class| Class { mutexes: 1, ..class.clone() };
        Self { classes: self.classes.iter().map(class).collect(), ..self.clone() }
    }

    /// What a file's thread waits for the engine's own threads: those share the processors that are left.
    #[allow(clippy::cast_precision_loss)] // of some threads
    fn lost(&self, question: &Question) -> f64 {
        let held: f64 = self.classes.iter().map(|class| class.per_file * class.hold).sum();
        let own = self.think + held;
        let busy = question.threads.min(question.processors) as f64 / question.processors as f64;
        ((own + self.background) * busy - own).clamp(0.0, self.background)
    }
}

/// What a life came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lived {
    /// Files a second.
    pub(super) rate: f64,
    /// Files for each second of processor time, spinning and the engine's own threads included.
    pub(super) per_processor: f64,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) kind: Kind,
    pub(super) processors: usize,
    pub(super) threads: usize,
    /// Nanoseconds to be lived through.
    pub(super) time: f64,
    /// Events at most, in case there are many.
    pub(super) events: u64,
    pub(super) seed: u64,
}

/// How many files that makes.
#[allow(clippy::cast_precision_loss)] // of a rate
pub(super) fn live(facts: &Facts, question: Question) -> Lived {
    let lost = facts.lost(&question);
    let unpaid = facts.background - lost;
    let facts = Facts { think: facts.think + lost, ..facts.clone() };
    let mut world = World::new(&facts, question);
    world.run();
    let taken: f64 = facts.classes.iter().map(|class| class.per_file).sum();
    let files = world.released as f64 / taken;
    let busy = world.busy as f64 / 1e12 + files * unpaid / 1e9;
    Lived { rate: files / (world.now as f64 / 1e12), per_processor: files / busy }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive and far below 2^64
fn picos(nanos: f64) -> Time {
    (nanos * 1000.0) as Time
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Thinking,
    Holding(usize),
    /// Looks at this lock again and again.
    Spinning(usize),
    /// Has no use for a processor.
    Asleep(usize),
}

#[derive(Clone, Debug)]
struct Thread {
    doing: Doing,
    /// Of thinking or holding, while it does not run.
    left: Time,
    /// Where it runs.
    processor: Option<usize>,
    /// When what it does ends, while it runs; when it began to spin.
    mark: Time,
    /// Changes with what it does: events of before are void.
    epoch: u64,
}

#[derive(Clone, Debug, Default)]
struct Lock {
    class: usize,
    holder: Option<usize>,
    /// In order of arrival, asleep or not.
    waiting: VecDeque<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A thread has thought or held long enough.
    Done(usize, u64),
    /// A thread has spun long enough, and goes to sleep.
    Sleep(usize, u64),
    /// A thread that was woken wants a processor.
    Awake(usize),
    /// A pause ends: somebody may find the lock free.
    Poll(usize),
    /// A processor is for somebody else now.
    Slice(usize, u64),
}

struct World<'f> {
    facts: &'f Facts,
    question: Question,
    random: Random,
    now: Time,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    number: u64,
    threads: Vec<Thread>,
    locks: Vec<Lock>,
    /// The first lock of each class, and one past the last of all.
    first: Vec<usize>,
    /// Who runs, and the slice's number.
    processors: Vec<(Option<usize>, u64)>,
    ready: VecDeque<usize>,
    /// Processors that have somebody, and the time that all had.
    running: u64,
    busy: Time,
    released: u64,
}

impl<'f> World<'f> {
    fn new(facts: &'f Facts, question: Question) -> Self {
        let mut locks = Vec::new();
        let mut first = Vec::new();
        for (class, of) in facts.classes.iter().enumerate() {
            first.push(locks.len());
            locks.extend((0..of.mutexes).map(|_| Lock { class, ..Lock::default() }));
        }
        first.push(locks.len());
        let thread = Thread { doing: Doing::Thinking, left: 0, processor: None, mark: 0, epoch: 0 };
        let mut world = Self {
            facts,
            question,
            random: Random::new(question.seed),
            now: 0,
            events: BinaryHeap::new(),
            number: 0,
            threads: vec![thread; question.threads],
            locks,
            first,
            processors: vec![(None, 0); question.processors],
            ready: (0..question.threads).collect(),
            running: 0,
            busy: 0,
            released: 0,
        };
        for thread in 0..question.threads {
            world.threads[thread].left = world.some_thought();
        }
        world
    }

    fn run(&mut self) {
        for processor in 0..self.processors.len() {
            self.dispatch(processor);
        }
        let end = picos(self.question.time);
        while let Some(Reverse((at, number, event))) = self.events.pop() {
            if at > end || number > self.question.events {
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

    fn at(&mut self, at: Time, event: Event) {
        self.number += 1;
        self.events.push(Reverse((at, self.number, event)));
    }

    /// A time of this mean, as waiting for chance has it.
    fn some(&mut self, mean: f64) -> Time {
        picos(-mean * (1.0 - self.random.fraction()).ln())
    }

    /// A thought between two locks.
    fn some_thought(&mut self) -> Time {
        let locks: f64 = self.facts.classes.iter().map(|class| class.per_file).sum();
        self.some(self.facts.think / locks)
    }

    /// The lock that is taken next: of a class as often as was measured, any in it.
    fn some_lock(&mut self) -> usize {
        let all: f64 = self.facts.classes.iter().map(|class| class.per_file).sum();
        let mut at = self.random.fraction() * all;
        let mut class = 0;
        while class + 1 < self.facts.classes.len() && at >= self.facts.classes[class].per_file {
            at -= self.facts.classes[class].per_file;
            class += 1;
        }
        let (first, end) = (self.first[class], self.first[class + 1]);
        first + self.random.index(end - first)
    }
}

/// Threads and processors.
impl World<'_> {
    /// Gives a processor to who waits longest for one.
    fn dispatch(&mut self, processor: usize) {
        let ran = self.processors[processor].0.is_some();
        self.processors[processor].1 += 1;
        self.processors[processor].0 = self.ready.pop_front();
        let runs = self.processors[processor].0.is_some();
        self.running = self.running + u64::from(runs) - u64::from(ran);
        if let Some(thread) = self.processors[processor].0 {
            self.threads[thread].processor = Some(processor);
            let slice = self.processors[processor].1;
            self.at(self.now + picos(self.facts.slice), Event::Slice(processor, slice));
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

    /// It runs, and is done after so long.
    fn work(&mut self, thread: usize, time: Time) {
        let of = &mut self.threads[thread];
        of.epoch += 1;
        of.mark = self.now + time;
        let (at, epoch) = (of.mark, of.epoch);
        self.at(at, Event::Done(thread, epoch));
    }

    /// Goes on with what it does, for so long: now, or when it has a processor.
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
            self.at(self.now + picos(self.facts.slice), Event::Slice(processor, slice));
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
impl World<'_> {
    fn fair(&self) -> bool {
        matches!(self.question.kind, Kind::Ticket | Kind::Queued)
    }

    fn done(&mut self, thread: usize) {
        match self.threads[thread].doing {
            Doing::Thinking => self.want(thread),
            Doing::Holding(lock) => self.release(thread, lock),
            Doing::Spinning(_) | Doing::Asleep(_) => {}
        }
    }

    fn want(&mut self, thread: usize) {
        let lock = self.some_lock();
        let of = &self.locks[lock];
        if of.holder.is_none() && (of.waiting.is_empty() || !self.fair()) {
            self.take(thread, lock, 0);
        } else {
            self.locks[lock].waiting.push_back(thread);
            self.spin(thread, lock);
        }
    }

    /// It has the lock, and holds it once the hand-over is done.
    fn take(&mut self, thread: usize, lock: usize, hand_over: Time) {
        self.locks[lock].holder = Some(thread);
        self.locks[lock].waiting.retain(|waiting| *waiting != thread);
        let hold = self.some(self.facts.classes[self.locks[lock].class].hold);
        self.begin(thread, Doing::Holding(lock), hand_over + hold);
    }

    fn spin(&mut self, thread: usize, lock: usize) {
        let of = &mut self.threads[thread];
        of.doing = Doing::Spinning(lock);
        of.mark = self.now;
        of.epoch += 1;
        let epoch = of.epoch;
        if self.question.kind == Kind::Parking {
            self.at(self.now + picos(self.facts.spin), Event::Sleep(thread, epoch));
        }
    }

    fn release(&mut self, thread: usize, lock: usize) {
        self.released += 1;
        self.locks[lock].holder = None;
        let thought = self.some_thought();
        self.begin(thread, Doing::Thinking, thought);
        self.offer(lock);
    }

    /// The lock may be free: somebody who waits takes it, or is woken for it.
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
        match self.question.kind {
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

    /// Who looks next finds it free.
    fn offer_by_pause(&mut self, lock: usize, spinning: &[usize], hand_over: Time) {
        let look = |thread: &usize| (self.next_look(self.threads[*thread].mark), *thread);
        match spinning.iter().map(look).min() {
            Some((at, thread)) if at <= self.now => self.take(thread, lock, hand_over),
            Some((at, _)) => self.at(at, Event::Poll(lock)),
            None => {}
        }
    }

    /// When a thread that spins since `began` looks at the lock, now or later.
    fn next_look(&self, began: Time) -> Time {
        let pause = picos(self.facts.pause).max(1);
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
        // It waits for a processor from now on, not for another to wake it.
        self.threads[thread].doing = Doing::Spinning(lock);
        self.at(self.now + picos(self.facts.wake), Event::Awake(thread));
    }

    /// What it takes until the next one has the lock.
    #[allow(clippy::cast_precision_loss)] // of some threads
    fn hand_over(&self, spinning: usize) -> Time {
        let others = spinning.saturating_sub(1) as f64;
        picos(match self.question.kind {
            Kind::TestAndSet => self.facts.hand_over * (1.0 + others),
            Kind::Ticket => self.facts.hand_over * (1.0 + others / 2.0),
            Kind::BackOff | Kind::Queued | Kind::Parking => self.facts.hand_over,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(hold: f64, think: f64, mutexes: u64) -> Facts {
        let class = Class { name: "a".into(), per_file: 1.0, hold, mutexes };
        Facts {
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

    fn rate(facts: &Facts, question: Question) -> f64 {
        live(facts, question).rate
    }

    fn question(kind: Kind, processors: usize, threads: usize) -> Question {
        Question { kind, processors, threads, time: 2e7, events: 400_000, seed: 7 }
    }

    #[test]
    fn one_thread_does_one_thing_after_the_other() {
        for kind in Kind::ALL {
            let rate = rate(&facts(100.0, 900.0, 1), question(kind, 1, 1));
            assert!((rate / 1e6 - 1.0).abs() < 0.03, "{kind:?}: {rate}");
        }
    }

    #[test]
    fn processors_add_up_where_nobody_meets() {
        for kind in Kind::ALL {
            let rate = rate(&facts(10.0, 990.0, 100_000), question(kind, 8, 8));
            assert!((rate / 8e6 - 1.0).abs() < 0.03, "{kind:?}: {rate}");
        }
    }

    #[test]
    fn the_engines_own_threads_cost_files_where_no_processor_is_idle() {
        let facts = Facts { background: 500.0, ..facts(10.0, 990.0, 100_000) };
        for (threads, rate, per_processor) in [(1, 1e6, 1e6 / 1.5), (2, 2e6 / 1.5, 1e6 / 1.5)] {
            let lived = live(&facts, question(Kind::Parking, 2, threads));
            assert!((lived.rate / rate - 1.0).abs() < 0.03, "{threads}: {lived:?}");
            assert!((lived.per_processor / per_processor - 1.0).abs() < 0.03, "{lived:?}");
        }
    }

    #[test]
    fn who_spins_takes_processor_time_and_who_sleeps_does_not() {
        let facts = Facts { spin: 0.0, ..facts(900.0, 100.0, 1) };
        let of = |kind| live(&facts, question(kind, 8, 8)).per_processor;
        assert!(of(Kind::Queued) < 2e5, "eight processors for one lock");
        assert!(of(Kind::Parking) > 5e5, "{}", of(Kind::Parking));
    }

    #[test]
    fn one_lock_bounds_them_all() {
        let facts = facts(500.0, 500.0, 1);
        let of = |kind, processors| rate(&facts, question(kind, processors, processors));
        for kind in Kind::ALL {
            assert!(of(kind, 16) <= 2e6, "{kind:?}: the lock is held half a microsecond");
        }
        assert!(of(Kind::Queued, 64) > 1.5e6, "as fast with many");
        assert!(of(Kind::TestAndSet, 64) < of(Kind::TestAndSet, 8) / 2.0, "the line is fought for");
        assert!(of(Kind::Ticket, 64) < of(Kind::Queued, 64));
    }

    #[test]
    fn order_of_arrival_collapses_where_threads_have_no_processor() {
        let facts = facts(500.0, 500.0, 1);
        let of = |kind| rate(&facts, Question { time: 2e8, ..question(kind, 2, 8) });
        assert!(of(Kind::Ticket) < of(Kind::BackOff) / 4.0);
        assert!(of(Kind::Queued) < of(Kind::Parking) / 4.0);
    }

    #[test]
    fn the_same_seed_lives_the_same_life() {
        let facts = facts(200.0, 800.0, 4);
        for kind in Kind::ALL {
            let lived = || rate(&facts, question(kind, 2, 5)).to_bits();
            assert_eq!(lived(), lived(), "{kind:?}");
        }
    }
}
