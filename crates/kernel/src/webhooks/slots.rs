//! Which webhooks are sent next: how many at a time of a process, a tenant and a host; tenants in turn; and hosts that wait
//! because they hung. Counts and times alone: must not read a document, and must not send.

use super::alerts::is_installation;
use counterstep_contracts::Tenant;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Maximum number of webhooks that one process sends at a time, alerts apart.
const AT_ONCE: usize = 32;

/// Maximum of these for one tenant, whose receivers may be many.
const AT_ONCE_OF_A_TENANT: usize = 8;

/// Maximum of these to one host of one tenant: a receiver that does not answer delays only its own. The same
/// maximum holds for alerts, which all go to one host.
const AT_ONCE_TO_A_HOST: usize = 2;

/// How many more of a tenant, and to a host, wait in the queue: they are sent as others end, without another
/// read.
const AHEAD: usize = 64;

/// Consecutive timeouts after which a host is paused; then it gets one request at a time, until it answers.
const HUNG: u32 = 3;

/// The pauses, the last for each further time.
const HOST_PAUSES: [Duration; 3] = [
    Duration::from_secs(30),
    Duration::from_secs(2 * 60),
    Duration::from_secs(10 * 60),
];

/// How long after its last request a host's count of timeouts is reset.
const FORGOTTEN: Duration = Duration::from_secs(3_600);

/// The tenant of a webhook, and the host that it goes to. The host of another tenant is another receiver: what one tenant sends there
/// must not keep those of others waiting.
pub(super) type Receiver = (Tenant, String);

/// Those that are due and are sent next, by tenant, each line in the order of due times.
pub(super) type Lines<T> = BTreeMap<Tenant, VecDeque<(Receiver, T)>>;

/// Whether one more may stand in line for a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Free,
    /// When others have ended.
    Taken,
    /// The host gets no request for `wait`; it has not answered for `hung`.
    HostWaits {
        wait: Duration,
        hung: Duration,
    },
}

/// What a host did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostAnswer {
    NotAsked,
    /// With whatever status, or by closing the connection.
    Answered,
    Hung,
}

#[derive(Debug, Clone, Copy)]
struct HungHost {
    in_a_row: u32,
    /// The first time of these, by the timer of the process.
    since: Duration,
    /// By the timer of the process.
    until: Duration,
}

/// What is being sent.
#[derive(Debug, Default)]
pub(super) struct Slots {
    receivers: BTreeMap<Receiver, usize>,
    /// No more come in than requests end that hung, and [`FORGOTTEN`] takes them out.
    hung: BTreeMap<Receiver, HungHost>,
    /// Which tenant was served when, in webhooks.
    turns: BTreeMap<Tenant, u64>,
    served: u64,
}

impl Slots {
    fn count(&self, fits: impl Fn(&Receiver) -> bool) -> usize {
        let fits = self.receivers.iter().filter(|(it, _)| fits(it));
        fits.map(|(_, count)| *count).sum()
    }

    fn left(&self) -> usize {
        AT_ONCE.saturating_sub(self.count(|it| !is_installation(&it.0)))
    }

    /// Whether no webhook has room but an alert.
    pub(super) fn is_full(&self) -> bool {
        self.left() == 0
    }

    fn waits(&self, receiver: &Receiver) -> Option<&HungHost> {
        self.hung.get(receiver).filter(|it| it.in_a_row >= HUNG)
    }

    /// How many are sent to its host at a time; 0: it waits.
    fn at_once(&self, receiver: &Receiver, now: Duration) -> usize {
        match self.waits(receiver) {
            Some(host) if now < host.until => 0,
            Some(_) => 1,
            None => AT_ONCE_TO_A_HOST,
        }
    }

    /// Whether one to this receiver could stand in line, beside those that do.
    pub(super) fn room<T>(&self, receiver: &Receiver, lines: &Lines<T>, now: Duration) -> Room {
        let most = self.at_once(receiver, now);
        if let Some(host) = self.waits(receiver).filter(|_| most == 0) {
            return Room::HostWaits {
                wait: host.until.saturating_sub(now),
                hung: now.saturating_sub(host.since),
            };
        }
        let line = lines.get(&receiver.0).into_iter().flatten();
        let (mut of_tenant, mut of_host) = (
            self.count(|it| it.0 == receiver.0),
            self.count(|it| it == receiver),
        );
        for (other, _) in line {
            of_tenant += 1;
            of_host += usize::from(other == receiver);
        }
        match of_host < most + AHEAD && of_tenant < AT_ONCE_OF_A_TENANT + AHEAD {
            true => Room::Free,
            false => Room::Taken,
        }
    }

    /// Whether one to this receiver could be sent.
    fn has_slot(&self, receiver: &Receiver, now: Duration) -> bool {
        self.count(|it| it == receiver) < self.at_once(receiver, now)
            && self.count(|it| it.0 == receiver.0) < AT_ONCE_OF_A_TENANT
    }

    /// Takes slots for those that are sent now: one of each tenant and again, beginning with the tenants that have waited longest
    /// for their turn. What is left in the lines has none yet.
    pub(super) fn take<T>(&mut self, lines: &mut Lines<T>, now: Duration) -> Vec<(Receiver, T)> {
        let is_served = |tenant: &Tenant| self.receivers.keys().any(|it| it.0 == *tenant);
        self.turns
            .retain(|tenant, _| lines.contains_key(tenant) || is_served(tenant));
        let mut tenants: Vec<_> = lines.keys().cloned().collect();
        tenants.sort_by_key(|tenant| self.turns.get(tenant).copied());
        let mut taken = Vec::new();
        while !tenants.is_empty() {
            tenants.retain(|tenant| {
                let has_room = is_installation(tenant) || !self.is_full();
                let Some(line) = lines.get_mut(tenant).filter(|_| has_room) else {
                    return false;
                };
                let first = line.iter().position(|(it, _)| self.has_slot(it, now));
                let Some((receiver, webhook)) = first.and_then(|at| line.remove(at)) else {
                    return false;
                };
                self.served += 1;
                self.turns.insert(tenant.clone(), self.served);
                *self.receivers.entry(receiver.clone()).or_default() += 1;
                taken.push((receiver, webhook));
                true
            });
        }
        taken
    }

    /// Gives a slot back.
    pub(super) fn leave(&mut self, receiver: &Receiver, answer: HostAnswer, now: Duration) {
        if let Some(count) = self.receivers.get_mut(receiver) {
            *count -= 1;
            if *count == 0 {
                self.receivers.remove(receiver);
            }
        }
        match answer {
            HostAnswer::NotAsked => {}
            HostAnswer::Answered => drop(self.hung.remove(receiver)),
            HostAnswer::Hung => {
                self.hung.retain(|_, host| now < host.until + FORGOTTEN);
                let before = self.hung.get(receiver);
                if before.is_some_and(|host| now < host.until) {
                    return; // It was asked before it began to wait.
                }
                let in_a_row = before.map_or(0, |host| host.in_a_row).saturating_add(1);
                let since = before.map_or(now, |host| host.since);
                let pause = in_a_row.checked_sub(HUNG).map_or(Duration::ZERO, |more| {
                    HOST_PAUSES[(more as usize).min(HOST_PAUSES.len() - 1)]
                });
                let until = now + pause;
                let host = HungHost {
                    in_a_row,
                    since,
                    until,
                };
                self.hung.insert(receiver.clone(), host);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhooks::alerts::installation;

    fn receiver(tenant: &str, host: &str) -> Receiver {
        (Tenant(tenant.to_owned()), host.to_owned())
    }

    /// Puts those that have room in line, and takes slots for them.
    fn send(slots: &mut Slots, due: &[Receiver], now: Duration) -> Vec<Receiver> {
        let mut lines: Lines<()> = Lines::new();
        for receiver in due {
            if slots.room(receiver, &lines, now) == Room::Free {
                let line = lines.entry(receiver.0.clone()).or_default();
                line.push_back((receiver.clone(), ()));
            }
        }
        let taken = slots.take(&mut lines, now).into_iter();
        taken.map(|(receiver, ())| receiver).collect()
    }

    #[test]
    fn a_process_sends_32_8_of_a_tenant_and_2_to_a_host_and_alerts_beside_them() {
        let mut slots = Slots::default();
        let now = Duration::ZERO;
        let one_host = vec![receiver("a", "one"); 900];
        assert_eq!(send(&mut slots, &one_host, now).len(), 2);
        let hosts: Vec<_> = (0..900).map(|it| receiver("a", &it.to_string())).collect();
        assert_eq!(send(&mut slots, &hosts, now).len(), 6);
        let tenants = (0..900).map(|it| receiver(&format!("t{it}"), "one"));
        let tenants: Vec<_> = tenants.collect();
        assert_eq!(send(&mut slots, &tenants, now).len(), 24);
        assert!(slots.is_full());
        let alerts = vec![(installation(), String::new()); 900];
        assert_eq!(send(&mut slots, &alerts, now).len(), 2);
    }

    #[test]
    fn tenants_are_served_in_turn() {
        let mut slots = Slots::default();
        let now = Duration::ZERO;
        let hosts = |tenant: &'static str| (0..8).map(move |it| receiver(tenant, &it.to_string()));
        let due: Vec<_> = ["a", "b", "c", "d"].into_iter().flat_map(hosts).collect();
        assert_eq!(send(&mut slots, &due, now).len(), AT_ONCE);
        // Those of the four are due before those of the other two.
        let due: Vec<_> = ["a", "b", "c", "d", "e", "f"]
            .into_iter()
            .flat_map(hosts)
            .collect();
        let mut served = Vec::new();
        for host in 0..4 {
            let ended = receiver("a", &host.to_string());
            slots.leave(&ended, HostAnswer::Answered, now);
            let [next] = &send(&mut slots, &due, now)[..] else {
                panic!("one has room");
            };
            served.push(next.0.0.clone());
        }
        // The others of the four have all that they may have.
        assert_eq!(served, ["e", "f", "a", "e"]);
    }

    #[test]
    fn those_in_line_are_sent_as_others_end_without_another_look() {
        let mut slots = Slots::default();
        let (host, now) = (receiver("a", "one"), Duration::ZERO);
        let mut lines: Lines<u32> = Lines::new();
        for number in 0..500 {
            if slots.room(&host, &lines, now) == Room::Free {
                let line = lines.entry(host.0.clone()).or_default();
                line.push_back((host.clone(), number));
            }
        }
        let mut sent = Vec::new();
        while let [_, ..] = &slots
            .take(&mut lines, now)
            .into_iter()
            .inspect(|it| sent.push(it.1))
            .collect::<Vec<_>>()[..]
        {
            slots.leave(&host, HostAnswer::Answered, now);
        }
        let all = (AT_ONCE_TO_A_HOST + AHEAD) as u32;
        assert_eq!(sent, (0..all).collect::<Vec<_>>(), "in order");
    }

    #[test]
    fn a_host_that_hung_three_times_in_a_row_waits_and_is_then_asked_once_at_a_time() {
        let mut slots = Slots::default();
        let (host, other) = (receiver("a", "one"), receiver("b", "one"));
        let due = vec![host.clone(); 9];
        let none = Lines::<()>::new();
        let mut now = Duration::from_secs(7);
        let hang = |slots: &mut Slots, now| {
            let sent = send(slots, &due, now);
            assert!(!sent.is_empty());
            slots.leave(&host, HostAnswer::Hung, now);
            for _ in &sent[1..] {
                slots.leave(&host, HostAnswer::NotAsked, now);
            }
            sent.len()
        };
        assert_eq!([hang(&mut slots, now), hang(&mut slots, now)], [2, 2]);
        // Not consecutive.
        slots.leave(&host, HostAnswer::Answered, now);
        for _ in 0..3 {
            assert_eq!(hang(&mut slots, now), 2);
        }
        for pause in [30, 120, 600, 600] {
            let pause = Duration::from_secs(pause);
            let hung = now - Duration::from_secs(7);
            let waits = Room::HostWaits { wait: pause, hung };
            assert_eq!(slots.room(&host, &none, now), waits);
            assert_eq!(slots.room(&other, &none, now), Room::Free);
            now += pause;
            assert_eq!(hang(&mut slots, now), 1);
        }
        now += Duration::from_secs(600);
        assert_eq!(send(&mut slots, &due, now).len(), 1);
        slots.leave(&host, HostAnswer::Answered, now);
        assert_eq!(send(&mut slots, &due, now).len(), 2);
    }
}
