//! The faults of a chaos run and how each strikes. Every kind is drawn equally often, in an order
//! that the seed decides. A fault heals before the next one is drawn, except a wrong clock, which
//! lasts until its process is replaced.

use super::fleet::{Fleet, LEASE, LOOKS, Role};
use super::strikes::Strikes;
use crate::process::Signal;
use crate::sample::Chance;
use crate::wait::{LATER, until_now};
use counterstep_testkit::servers::is_commit;
use counterstep_testkit::services::Trouble;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Kinds of faults, in the words of the report.
pub(super) const KILL_WORKER: &str = "a worker is killed";
pub(super) const KILL_API: &str = "an API is killed";
pub(super) const KILL_RECONCILER: &str = "a reconciler is killed";
pub(super) const STOP_WORKER: &str = "a worker is stopped in an orderly way";
pub(super) const PAUSE_WORKER: &str = "a worker is paused past its lease";
pub(super) const LOSE_REPLIES: &str = "replies of commits are lost";
pub(super) const CUT_DATABASE: &str = "the network of the database is cut";
pub(super) const RESTART_POSTGRES: &str = "PostgreSQL restarts";
pub(super) const CRASH_POSTGRES: &str = "PostgreSQL crashes";
pub(super) const CRASH_NATS: &str = "NATS crashes";
pub(super) const WIPE_NATS: &str = "NATS loses all its messages";
pub(super) const FLUSH_REDIS: &str = "Redis loses all its keys";
pub(super) const STOP_REDIS: &str = "Redis is away";
pub(super) const REFUSE_OBJECTS: &str = "the object store refuses";
pub(super) const BREAK_SERVICES: &str = "HTTP services break";
pub(super) const WRONG_CLOCK: &str = "a process starts with a wrong clock";
pub(super) const FULL_DISK: &str = "the disk is full";

/// The NATS server that leads the stream of work is killed.
pub const KILL_LEADER: &str = "the leader of the NATS stream is killed";
const KILL_TWO: &str = "two NATS servers of three are killed";
const WIPE_ONE: &str = "one NATS server of three loses its disk";
const PUT_BACK: &str = "all NATS servers come back with disks of 5 s ago";

/// All kinds that need three NATS servers.
pub const OF_NATS_CLUSTER: &[&str] = &[
    KILL_LEADER,
    KILL_LEADER,
    KILL_LEADER,
    KILL_TWO,
    WIPE_ONE,
    PUT_BACK,
];

/// How long NATS servers may take to agree again.
const AGREE: Duration = Duration::from_secs(60);

/// The stream of work.
const STREAM: &str = "counterstep-work";

const ALWAYS: &[&str] = &[
    KILL_WORKER,
    KILL_API,
    KILL_RECONCILER,
    STOP_WORKER,
    PAUSE_WORKER,
    LOSE_REPLIES,
    CUT_DATABASE,
    RESTART_POSTGRES,
    CRASH_POSTGRES,
    CRASH_NATS,
    WIPE_NATS,
    FLUSH_REDIS,
    STOP_REDIS,
    REFUSE_OBJECTS,
    BREAK_SERVICES,
];

/// Requests to the HTTP services of an order.
const REQUESTS: &[&str] = &[
    "POST /inventory/reservations",
    "POST /bank/charges",
    "POST /shipping/shipments",
    "POST /bank/refunds",
    "DELETE /inventory/reservations",
    "DELETE /shipping/shipments",
];

/// Wrong clocks differ by less than the quarter of an hour that signed requests to an object store
/// tolerate.
const SKEWS: [i64; 4] = [-600, -45, 45, 600];

/// Until when the small file system was full: clients may be told so, at that time alone.
#[derive(Debug, Clone, Default)]
pub(super) struct FullUntil(Arc<Mutex<Option<Instant>>>);

impl FullUntil {
    fn set(&self, until: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    /// Whether it was at some moment since then.
    pub(super) fn is_after(&self, began: Instant) -> bool {
        let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| until > began)
    }
}

/// A small file system that can be filled.
#[derive(Debug)]
pub(super) struct Disk {
    ballast: PathBuf,
    full_until: FullUntil,
    /// How often a write found it full.
    refused: u64,
}

impl Disk {
    pub(super) fn new(folder: PathBuf, full_until: FullUntil) -> Self {
        Self {
            ballast: folder.join("ballast"),
            full_until,
            refused: 0,
        }
    }

    /// Fills it and keeps it full for `duration`: what others free meanwhile is taken too.
    fn fill_for(&mut self, duration: Duration) {
        self.full_until
            .set(Instant::now() + duration + Duration::from_secs(60));
        let mut file = File::create(&self.ballast).expect("a file on the small disk");
        let piece = vec![0_u8; 1 << 20];
        let mut size = piece.len();
        let mut until = None;
        while until.is_none_or(|until| Instant::now() < until) {
            match file.write(&piece[..size]) {
                Ok(written) if written > 0 => {}
                Ok(_) | Err(_) if size > SMALLEST => size /= 2,
                Ok(_) | Err(_) => {
                    self.refused += 1;
                    until.get_or_insert_with(|| Instant::now() + duration);
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
        drop(file);
        std::fs::remove_file(&self.ballast).expect("the ballast is removed");
        self.full_until.set(Instant::now());
    }
}

/// Pieces of this size are what a page of a file system takes.
const SMALLEST: usize = 4096;

/// Which faults there are, how often each struck, and what proves it.
#[derive(Debug)]
pub(super) struct Faults {
    strikes: Strikes,
    deck: Vec<&'static str>,
    pub(super) struck: BTreeMap<&'static str, u32>,
    disk: Option<Disk>,
    /// Processes whose log shows another time than this machine's.
    shifted: u32,
    /// Workers that had a task when they were paused.
    paused_with_tasks: u32,
    /// Whether Redis held keys when it lost them.
    flushed_keys: bool,
    /// How often another NATS server led the stream after its leader was killed.
    moved: u32,
    /// How often a NATS server had the stream again after it lost its disk.
    refilled: u32,
    /// What contradicted a promise while a fault struck.
    pub(super) anomalies: Vec<String>,
    /// Troubles that were planted in the HTTP services.
    troubles: usize,
}

impl Faults {
    pub(super) fn new(strikes: Strikes, disk: Option<Disk>) -> Self {
        Self {
            strikes,
            deck: Vec::new(),
            struck: BTreeMap::new(),
            disk,
            shifted: 0,
            paused_with_tasks: 0,
            flushed_keys: false,
            moved: 0,
            refilled: 0,
            anomalies: Vec::new(),
            troubles: 0,
        }
    }

    /// The next fault of a deck that holds each kind once and is shuffled again when it is empty.
    pub(super) fn draw(&mut self, chance: &mut Chance) -> &'static str {
        if self.deck.is_empty() {
            match self.strikes {
                Strikes::NatsCluster(kinds) => self.deck.extend(kinds),
                Strikes::All | Strikes::Soak => {
                    self.deck.extend(ALWAYS);
                    self.deck
                        .extend(Fleet::can_shift_clocks().then_some(WRONG_CLOCK));
                    self.deck.extend(self.disk.is_some().then_some(FULL_DISK));
                }
            }
        }
        let at = usize::try_from(chance.within(0, self.deck.len() as u64)).expect("a small number");
        self.deck.swap_remove(at)
    }

    /// Kinds that this machine does not allow.
    pub(super) fn left_out(&self) -> Vec<&'static str> {
        if let Strikes::NatsCluster(_) = self.strikes {
            return Vec::new();
        }
        let clock = (!Fleet::can_shift_clocks()).then_some(WRONG_CLOCK);
        let disk = self.disk.is_none().then_some(FULL_DISK);
        clock.into_iter().chain(disk).collect()
    }

    pub(super) async fn strike(
        &mut self,
        kind: &'static str,
        fleet: &mut Fleet,
        chance: &mut Chance,
    ) {
        let lasts = Duration::from_millis(chance.within(500, 4_000));
        let servers = &fleet.cluster.servers;
        match kind {
            KILL_WORKER => _ = replace(fleet, Role::is_worker, chance, 0),
            KILL_API => _ = replace(fleet, Role::is_api, chance, 0),
            KILL_RECONCILER => _ = replace(fleet, Role::is_reconciler, chance, 0),
            WRONG_CLOCK => {
                let skew = SKEWS[usize::try_from(chance.within(0, SKEWS.len() as u64))
                    .expect("a small number")];
                let at = replace(fleet, |_| true, chance, skew);
                self.shifted += u32::from(fleet.has_wrong_clock(at));
            }
            STOP_WORKER => {
                let at = fleet.pick_to_end(Role::is_worker, chance);
                let mut worker = fleet.take(at);
                worker.signal(Signal::Terminate);
                let status = worker.ended();
                // No fault strikes beside this one: what it runs has time to end or to be handed
                // over.
                if !status.success() {
                    let log = worker.tail();
                    self.anomalies.push(format!(
                        "a worker that was asked to stop ended with {status}\n{log}"
                    ));
                }
                fleet.begin_again(at, 0);
            }
            PAUSE_WORKER => {
                let at = fleet.pick(Role::is_worker, chance);
                self.paused_with_tasks += u32::from(fleet.stand_still(at).await);
                tokio::time::sleep(LEASE + lasts).await;
                fleet.signal(at, Signal::Continue);
            }
            LOSE_REPLIES => {
                let count = u32::try_from(chance.within(1, 6)).expect("a small number");
                let before = fleet.proxy.lost();
                fleet.proxy.lose_replies(count, is_commit);
                until_now("commits whose replies are lost", LATER, || {
                    (fleet.proxy.lost() >= before + u64::from(count)).then_some(())
                });
            }
            CUT_DATABASE => {
                fleet.proxy.cut();
                tokio::time::sleep(lasts).await;
                fleet.proxy.heal();
            }
            RESTART_POSTGRES => servers.postgres.restart(),
            CRASH_POSTGRES => {
                servers.postgres.crash();
                tokio::time::sleep(lasts).await;
                servers.postgres.begin();
            }
            CRASH_NATS => {
                servers.nats.crash();
                tokio::time::sleep(lasts).await;
                servers.nats.begin();
            }
            WIPE_NATS => {
                servers.nats.stop();
                servers.nats.wipe_store();
                servers.nats.begin();
            }
            FLUSH_REDIS => {
                // A first delivery takes no lock: most of the time there is nothing to lose.
                for _ in 0..LOOKS {
                    if servers.redis.keys() > 0 {
                        self.flushed_keys = true;
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                servers.redis.flush();
            }
            STOP_REDIS => {
                servers.redis.stop();
                tokio::time::sleep(lasts).await;
                servers.redis.begin();
            }
            REFUSE_OBJECTS => {
                servers.s3.answer_503_for(lasts);
                tokio::time::sleep(lasts).await;
            }
            BREAK_SERVICES => self.troubles += break_services(fleet, chance),
            FULL_DISK => {
                let disk = self.disk.as_mut().expect("drawn only where there is one");
                disk.fill_for(lasts);
                // JetStream switches itself off on a full disk, and may then not end when it is
                // asked to; PostgreSQL may have ended.
                servers.nats.crash();
                servers.nats.begin();
                if servers
                    .postgres
                    .run_sql(&servers.postgres.url(), "SELECT 1")
                    .is_err()
                {
                    servers.postgres.restart();
                }
            }
            of_cluster => return self.strike_nats(of_cluster, fleet, chance, lasts).await,
        }
        *self.struck.entry(kind).or_default() += 1;
    }

    async fn strike_nats(
        &mut self,
        kind: &'static str,
        fleet: &Fleet,
        chance: &mut Chance,
        lasts: Duration,
    ) {
        let nats = fleet.cluster.nats_cluster.as_ref();
        let nats = nats.expect("drawn only where there is a cluster");
        let Some(leader) = nats.leader_of(STREAM) else {
            println!("         no server leads the stream: nothing strikes");
            return;
        };
        let servers = nats.servers();
        match kind {
            KILL_LEADER => {
                servers[leader].crash();
                let led_by_another = || nats.leader_of(STREAM).is_some_and(|now| now != leader);
                self.moved += u32::from(within(AGREE, led_by_another).await);
                servers[leader].begin();
            }
            KILL_TWO => {
                let other = &servers[(leader + 1) % servers.len()];
                servers[leader].crash();
                other.crash();
                tokio::time::sleep(lasts).await;
                servers[leader].begin();
                other.begin();
            }
            WIPE_ONE => {
                let at = chance.within(0, servers.len() as u64);
                let at = usize::try_from(at).expect("a small number");
                servers[at].crash();
                servers[at].wipe_store();
                servers[at].begin();
                self.refilled += u32::from(within(AGREE, || nats.has(at, STREAM)).await);
            }
            PUT_BACK => {
                let stores = nats.copy_stores();
                tokio::time::sleep(Duration::from_secs(5)).await;
                nats.put_back(&stores);
            }
            other => unreachable!("no such fault: {other}"),
        }
        if !nats.agree_within(AGREE) {
            // Of the server program, and not of what is tested: tasks have to go on by polls.
            println!("         the NATS servers do not agree after {AGREE:?}");
        }
        *self.struck.entry(kind).or_default() += 1;
    }

    /// Kinds that struck without evidence that anything felt them.
    pub(super) fn without_evidence(&self, fleet: &Fleet) -> Vec<String> {
        let logs = fleet.logs();
        let marks = |marks: &[&str]| marks.iter().any(|mark| logs.contains(mark));
        let felt = |kind: &str| match kind {
            PAUSE_WORKER => self.paused_with_tasks > 0,
            CUT_DATABASE | RESTART_POSTGRES | CRASH_POSTGRES => marks(&[
                "the database does not answer",
                "answer to a commit was lost",
            ]),
            LOSE_REPLIES => fleet.proxy.lost() > 0,
            KILL_LEADER => self.moved > 0,
            WIPE_ONE => self.refilled > 0,
            CRASH_NATS | KILL_TWO | PUT_BACK => marks(&["the connection to NATS was lost"]),
            WIPE_NATS => marks(&["the stream was gone"]),
            FLUSH_REDIS => self.flushed_keys || marks(&["the lock was gone"]),
            STOP_REDIS => marks(&["going on without"]),
            REFUSE_OBJECTS => fleet.cluster.servers.s3.refused() > 0,
            // Some of the last ones may wait for a request that no task makes any more.
            BREAK_SERVICES => self.troubles > fleet.services.planted(),
            WRONG_CLOCK => self.shifted > 0,
            FULL_DISK => self.disk.as_ref().is_some_and(|disk| disk.refused > 0),
            // A process that was not there any more would have ended the run.
            _ => true,
        };
        self.struck
            .keys()
            .filter(|kind| !felt(kind))
            .map(|kind| (*kind).to_owned())
            .collect()
    }
}

/// Whether it comes true within the limit.
async fn within(limit: Duration, mut is_true: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + limit;
    while !is_true() {
        if Instant::now() > until {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    true
}

/// Kills one of a role and starts it again. Returns which.
fn replace(fleet: &mut Fleet, of: fn(Role) -> bool, chance: &mut Chance, skew: i64) -> usize {
    let at = fleet.pick_to_end(of, chance);
    fleet.take(at).kill();
    fleet.begin_again(at, skew);
    at
}

/// One trouble for each request. No more: an undo that is refused as often as it may be tried is
/// parked, and rightly. Returns how many.
fn break_services(fleet: &Fleet, chance: &mut Chance) -> usize {
    let mut planted = 0;
    for request in REQUESTS {
        // A trouble that waits for an undo holds up none of the others.
        if fleet.services.planted_at(request) > 0 {
            continue;
        }
        planted += 1;
        let trouble = match chance.within(0, 4) {
            0 => Trouble::CutBefore,
            1 => Trouble::CutAfter,
            2 => Trouble::Late(Duration::from_millis(chance.within(100, 900))),
            _ => Trouble::Refuses(503, Some("0".to_owned())),
        };
        fleet.services.plant(request, trouble);
    }
    planted
}
