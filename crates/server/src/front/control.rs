//! The front's communication with the supervisor and the zygotes.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use howdah_ipc::control::OVERTIME;
use howdah_php::counters::{Counters, PoolCounter};
use howdah_php::{Pool, PoolEvent};
use howdah_sys::process::Exit;
use howdah_sys::readiness::Readable;
use howdah_sys::seqpacket::SeqPacket;
use howdah_sys::signal::SIGKILL;
use tokio::sync::watch;

use super::{FrontShared, FrontStage, time_before_end};
use crate::admin::{ControlQuestion, ControlQuestions};
use crate::log::{Level, LogWriter, WaitStatus};
use crate::status::{Snapshot, table};
use crate::supervisor::front_protocol::{self, FromFront, PoolChannel, PoolFacts, ToFront};

/// The front's communication with the supervisor and the zygotes.
pub(super) struct Control {
    pub(super) channel: Rc<SeqPacket>,
    pub(super) pools: Vec<Option<Arc<Pool>>>,
    pub(super) shared: Arc<FrontShared>,
    /// The destination of questions that the admin listener's thread answers.
    pub(super) questions: ControlQuestions,
    pub(super) stages: watch::Sender<FrontStage>,
    /// By channel.
    starts: RefCell<Vec<PoolStart>>,
    /// Whether the supervisor was told that the pools are complete.
    told: Cell<bool>,
    /// [`PATIENCE`] is over.
    is_late: Cell<bool>,
}

/// The start of a pool.
#[derive(Debug, Default)]
struct PoolStart {
    name: String,
    facts: PoolFacts,
    /// The first workers have started, or nobody waits for them.
    is_complete: bool,
}

impl Control {
    pub(super) fn new(
        channel: Rc<SeqPacket>,
        pools: Vec<Option<Arc<Pool>>>,
        shared: Arc<FrontShared>,
        questions: ControlQuestions,
        stages: watch::Sender<FrontStage>,
    ) -> Control {
        Control {
            channel,
            pools,
            shared,
            questions,
            stages,
            starts: RefCell::default(),
            told: Cell::new(false),
            is_late: Cell::new(false),
        }
    }

    /// Follows the supervisor and the zygotes until the front ends.
    pub(super) async fn run(self: Rc<Self>, channels: Vec<PoolChannel>) {
        for id in self.shared.challenges.numbers() {
            self.tell(&FromFront::Presented { id });
        }
        *self.starts.borrow_mut() = channels
            .iter()
            .map(|channel| PoolStart {
                name: channel.name.clone(),
                is_complete: channel.zygote.is_none(),
                ..PoolStart::default()
            })
            .collect();
        let sites: Vec<usize> = channels.iter().map(|channel| channel.site).collect();
        // Where there are no pools to wait for.
        self.tell_ready();
        for (position, channel) in channels.into_iter().enumerate() {
            if channel.zygote.is_none()
                && let Some(pool) = &self.pools[channel.site]
            {
                pool.expect_start(channel.grace);
            }
            if let Some(zygote) = channel.zygote {
                let place = (position, channel.site);
                tokio::task::spawn_local(self.clone().follow(place, 0, zygote));
            }
        }
        tokio::task::spawn_local(self.clone().wait_no_longer());
        tokio::task::spawn_local(self.clone().tell_closed());
        if let Err(error) = self.listen(&sites).await {
            let what = format!(
                "the connection to the supervisor broke ({error}); finishing the requests in flight"
            );
            self.shared.log.say(Level::Warning, None, &what);
        }
        // The supervisor is gone: requests in flight get a grace period, then the front ends.
        self.stages.send_replace(FrontStage::Stopping);
        tokio::time::sleep(ORPHAN_GRACE).await;
        self.stages.send_replace(FrontStage::Over);
    }

    /// Follows the supervisor's commands until the supervisor is gone.
    async fn listen(self: &Rc<Self>, sites: &[usize]) -> io::Result<()> {
        self.channel.set_nonblocking(true)?;
        let readable = Readable::new(self.channel.as_fd())?;
        let mut room = vec![0; 64 * 1024];
        while let Some(received) = readable.next_message(&self.channel, &mut room).await? {
            let command = ToFront::decode(&room[..received.length])?;
            self.obey(command, received.descriptors, sites);
        }
        Ok(())
    }

    /// Carries out one command, with the descriptors that came with it.
    fn obey(self: &Rc<Self>, command: ToFront, mut descriptors: Vec<OwnedFd>, sites: &[usize]) {
        match command {
            ToFront::Drain { keep_idle: true } => {
                self.stages.send_replace(FrontStage::Draining);
                self.limit_requests();
            }
            ToFront::Drain { keep_idle: false } => {
                self.stages.send_replace(FrontStage::Stopping);
                self.limit_requests();
            }
            ToFront::KeepTunnels(keep) => {
                self.shared.keeps_tunnels.store(keep, Relaxed);
                self.limit_requests();
            }
            ToFront::PoolReplaced { pool, zygote } => {
                if let (Some(socket), Some(site)) = (descriptors.pop(), sites.get(pool)) {
                    let follow = self.clone().follow((pool, *site), zygote, socket.into());
                    tokio::task::spawn_local(follow);
                }
            }
            ToFront::Status { id } => self.tell(&FromFront::Status { id, text: self.status() }),
            ToFront::StatusJson { id } => {
                if let Some(client) = descriptors.pop() {
                    // The thread of the admin listener never ends before this one.
                    let _ = self.questions.send(ControlQuestion { client, received: None });
                }
                self.tell(&FromFront::StatusTaken { id });
            }
            ToFront::Monitor { id, received: bytes } => {
                if let Some(client) = descriptors.pop() {
                    let received = Some(bytes);
                    let _ = self.questions.send(ControlQuestion { client, received });
                }
                self.tell(&FromFront::StatusTaken { id });
            }
            ToFront::ReopenLogs { first } => {
                self.replace_logs(first, descriptors);
            }
            ToFront::Present { id, answer } => {
                self.shared.challenges.present(id, &answer);
                self.tell(&FromFront::Presented { id });
            }
            ToFront::Withdraw { id } => self.shared.challenges.withdraw(id),
            ToFront::Renewals { names } => {
                names.into_iter().for_each(|(name, next)| self.shared.renewals.note(name, next));
            }
            ToFront::Certificates { site } => {
                self.replace_certificates(site, descriptors.pop());
            }
            ToFront::OneCertificate { site } => {
                self.put_certificate(site, descriptors.pop());
            }
            ToFront::ClientAuthorities { site } => {
                self.replace_authorities(site, descriptors.pop());
            }
            ToFront::Closed { site, why } => self.set_closed(site, why),
            ToFront::Reason { topic, site, why } => self.shared.reasons.note(topic, site, why),
            ToFront::ReadPackets => {
                // A front that is told to drain has left its packets to another one.
                let reads = *self.stages.borrow() == FrontStage::Serving;
                self.shared.quic.iter().for_each(|quic| quic.set_reading(reads));
            }
            ToFront::TicketKeys => self.replace_ticket_keys(descriptors.pop()),
        }
    }

    /// Ends the requests that workers have shortly before the time limit for draining, if the front
    /// drains and has such a limit, so that their clients are answered and the requests are
    /// counted.
    fn limit_requests(self: &Rc<Self>) {
        let is_serving = *self.stages.borrow() == FrontStage::Serving;
        if is_serving || self.shared.keeps_tunnels.load(Relaxed) {
            return;
        }
        let control = self.clone();
        tokio::task::spawn_local(async move {
            let limit = control.shared.config.limits.drain_timeout;
            tokio::time::sleep(time_before_end(limit)).await;
            // The limit may have been taken back.
            if control.shared.keeps_tunnels.load(Relaxed) {
                return;
            }
            control.pools.iter().flatten().for_each(|pool| pool.cut_off_waiting());
            tokio::time::sleep(LEAVING).await;
            control.pools.iter().flatten().for_each(|pool| pool.cut_off_running());
        });
    }

    /// Follows one zygote from its start to its end: that with this number among those of the pool
    /// at `position`.
    async fn follow(
        self: Rc<Self>,
        (position, site): (usize, usize),
        number: u64,
        zygote: SeqPacket,
    ) {
        let Some(pool) = self.pools[site].clone() else {
            return;
        };
        let log = &self.shared.log;
        let name = Some(pool.name());
        // This is the first thread.
        let of_pool = self.shared.counters.thread(0).pool(site).clone();
        let (workers, ended) = pool
            .follow(zygote, |event| self.note(position, &pool, &of_pool.all, event))
            .await;
        // Nobody waits for the workers of a zygote that has ended.
        self.starts.borrow_mut()[position].is_complete = true;
        self.tell_ready();
        match ended {
            Ok(()) if *self.stages.borrow() != FrontStage::Serving => {}
            Ok(()) => {
                of_pool.count_zygote(workers);
                let what = "the zygote and its workers have ended; waiting for the next zygote";
                log.say(Level::Error, name, what);
            }
            Err(error) => {
                of_pool.count_zygote(workers);
                log.say(
                    Level::Error,
                    name,
                    &format!("the pool has failed and is no longer used: {error}"),
                );
                self.tell(&FromFront::PoolBroken {
                    pool: position,
                    zygote: Some(number),
                    reason: error.to_string(),
                });
            }
        }
    }

    /// Notes an event of the pool at `position`: for the supervisor, in the counters, in the log.
    fn note(&self, position: usize, pool: &Pool, counters: &Counters, event: PoolEvent) {
        match event {
            PoolEvent::Ready { php_version, opcache } => {
                self.starts.borrow_mut()[position].facts = PoolFacts {
                    php_version,
                    opcache,
                    workers: pool.limits().workers,
                };
            }
            PoolEvent::Complete => {
                self.starts.borrow_mut()[position].is_complete = true;
                self.tell_ready();
            }
            PoolEvent::WorkerStarted => counters.count(PoolCounter::Started),
            PoolEvent::WorkerDismissed => counters.count(PoolCounter::Dismissed),
            PoolEvent::WorkerDied { status: 0, .. } => counters.count_end(0),
            PoolEvent::WorkerDied { pid, status, is_out_of_memory, processor } => {
                counters.count_end(status);
                let cause = if is_out_of_memory {
                    ", because memory ran out"
                } else if is_over_time(status, processor, self.processor_limit(pool)) {
                    ", because its processor time was used up (`rlimits.cpu`)"
                } else {
                    ""
                };
                if is_out_of_memory {
                    counters.count(PoolCounter::OutOfMemory);
                }
                let status = WaitStatus(status);
                let what = format!("worker {pid} {status}{cause}; another takes its place");
                self.shared.log.say(Level::Error, Some(pool.name()), &what);
            }
        }
    }

    /// The processor time after which a worker of the pool ends after its request.
    fn processor_limit(&self, pool: &Pool) -> Option<Duration> {
        let sites = &self.shared.config.sites;
        let site = sites.iter().find(|site| site.name == pool.name())?;
        site.php.as_ref()?.rlimits.cpu
    }

    /// Tells the supervisor, once, that every pool has been complete; or one of them, after some
    /// time: scripts of a former generation may have used up the processes that their user may
    /// have, and the other sites are not kept waiting for the workers of that pool.
    fn tell_ready(&self) {
        let starts = self.starts.borrow();
        let late = || starts.iter().filter(|start| !start.is_complete);
        let is_enough = late().count() == 0 || self.is_late.get() && late().count() < starts.len();
        if self.told.get() || !is_enough {
            return;
        }
        self.told.set(true);
        for PoolStart { name, .. } in late() {
            let what = format!(
                "its workers have not started in {} s; the other sites do not wait for them",
                PATIENCE.as_secs()
            );
            self.shared.log.say(Level::Error, Some(name), &what);
        }
        self.shared.has_started.send_replace(true);
        let pools = starts.iter().map(|start| start.facts.clone()).collect();
        self.tell(&FromFront::Ready { pools });
    }

    /// Tells the supervisor when no thread accepts connections any more.
    async fn tell_closed(self: Rc<Self>) {
        self.shared.closed.notified().await;
        self.tell(&FromFront::Closed);
    }

    async fn wait_no_longer(self: Rc<Self>) {
        tokio::time::sleep(PATIENCE).await;
        self.is_late.set(true);
        self.tell_ready();
    }

    pub(super) fn tell(&self, message: &FromFront) {
        // [`Control::listen`] notices a supervisor that is gone.
        let _ = self.channel.send_now(&message.encode(), &[]);
    }

    /// Replaces log files, from the one at `first` on.
    fn replace_logs(&self, first: usize, descriptors: Vec<OwnedFd>) {
        let access = self.shared.access.all().map(LogWriter::target);
        let files = front_protocol::log_files(&self.shared.log, access);
        for (target, descriptor) in files.skip(first).zip(descriptors) {
            if let Err(error) = target.replace(descriptor) {
                let what = format!("a new log file cannot be used: {error}");
                self.shared.log.say(Level::Error, None, &what);
            }
        }
    }

    /// Returns the front's part of `howdah status`.
    fn status(&self) -> String {
        table(&Snapshot::of(&self.shared, *self.stages.borrow() != FrontStage::Serving))
    }
}

/// The time that requests get to leave the queue, before scripts are ended and their workers would
/// begin the next requests.
const LEAVING: Duration = Duration::from_millis(100);

/// Time in which the first workers of all pools must have started.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time that requests in flight get after the supervisor has died.
const ORPHAN_GRACE: Duration = Duration::from_secs(5);

/// Returns whether the kernel has ended a worker because it was on a processor for longer than this
/// limit and its [`OVERTIME`].
fn is_over_time(status: u32, processor: Duration, limit: Option<Duration>) -> bool {
    let is_killed = Exit::from_wait(status.cast_signed()) == Exit::Signal(SIGKILL);
    // The kernel counts ticks for the limit, and exactly for what it reports.
    let last = Duration::from_secs(OVERTIME * 9 / 10);
    is_killed && limit.is_some_and(|limit| processor >= limit + last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_processor_time_is_named_where_it_ended_a_worker() {
        let second = Duration::from_secs(1);
        for (status, seconds, limit, expected) in [
            (9, 61, Some(second), true),
            (9, 60, Some(second), true),
            // Something else killed it: a time-out, or a person.
            (9, 30, Some(second), false),
            (9, 90, Some(second * 100), false),
            (9, 61, None, false),
            (11, 61, Some(second), false),
            (0, 61, Some(second), false),
        ] {
            let found = is_over_time(status, second * seconds, limit);
            assert_eq!(found, expected, "{status} {seconds} {limit:?}");
        }
    }
}
