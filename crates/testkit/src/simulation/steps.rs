//! Where steps run in a simulation: in the turn that asks for them, noted at their begin and their end. And the services that they
//! call: closures, with answers that get lost.

use super::executions::Executions;
use super::faults::Trouble::{ServiceAway, ServiceDone, StepKills, StepSlow};
use super::link::Link;
use async_trait::async_trait;
use counterstep_kernel::ports::{
    CodeLabel, HttpServices, ServiceAnswer, ServiceError, ServiceRequest, Spool, SpoolEntry,
    SpoolError, SpoolKey, SpoolStats, StepRunner,
};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Runs the steps of a process.
#[derive(Debug)]
pub(super) struct StepLink(pub(super) Arc<Link>);

impl StepRunner for StepLink {
    fn start(&self, label: CodeLabel, code: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        let link = self.0.clone();
        Box::pin(async move {
            let (part, step, attempt) = (label.part, label.step.clone(), label.attempt);
            link.note(("begins", label.task.0, &step, part, attempt.0), || {
                format!(
                    "{part} of {step}, attempt {attempt}, of {} begins",
                    label.task
                )
            });
            let executing = Executions::begin(&link.world, &label, &link);
            let struck = link.next("step", &[StepSlow, StepKills]).await;
            if let Some((StepKills, _)) = struck {
                link.feels(StepKills);
                link.world.kill(&link.process);
                return std::future::pending().await;
            }
            if let Some((_, mut choice)) = struck {
                link.feels(StepSlow);
                let longest = u64::try_from(link.world.options.lease.as_millis() * 2);
                link.waits(&mut choice, 1, longest.unwrap_or(u64::MAX))
                    .await;
            }
            code.await;
            drop(executing);
            link.note(("ends", label.task.0, &step, part), || {
                format!("{part} of {step}, attempt {attempt}, ends")
            });
        })
    }
}

type Answer = dyn Fn(&ServiceRequest) -> Result<ServiceAnswer, ServiceError> + Send + Sync;

/// The services of a simulation, by name.
#[derive(Clone, Default)]
pub(super) struct Services(pub(super) BTreeMap<&'static str, Arc<Answer>>);

/// The way of a process to them.
pub(super) struct ServiceLink {
    pub(super) link: Arc<Link>,
    pub(super) services: Services,
}

impl std::fmt::Debug for ServiceLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.services.0.keys()).finish()
    }
}

#[async_trait]
impl HttpServices for ServiceLink {
    async fn call(&self, request: ServiceRequest) -> Result<ServiceAnswer, ServiceError> {
        let name = &request.service;
        let Some(answer) = self.services.0.get(&**name) else {
            return Err(ServiceError::Unknown(name.clone()));
        };
        let link = &self.link;
        let lost = || ServiceError::Unanswered("its answer was lost (simulated)".to_owned());
        match link.next("service", &[ServiceAway, ServiceDone]).await {
            None => {
                let answer = answer(&request);
                link.note(("service", name, &request.path), || {
                    let status = answer.as_ref().map(|it| it.status);
                    format!("{name} answers {status:?} to {}", request.path)
                });
                answer
            }
            Some((ServiceAway, mut choice)) => {
                link.waits(&mut choice, 0, 5_000).await;
                link.feels(ServiceAway);
                Err(ServiceError::NotSent("not reached (simulated)".to_owned()))
            }
            Some((_, mut choice)) => {
                let _ = answer(&request);
                link.waits(&mut choice, 1, 5_000).await;
                link.feels(ServiceDone);
                Err(lost())
            }
        }
    }

    fn knows(&self, service: &str) -> bool {
        self.services.0.contains_key(service)
    }
}

/// The disk of a process: what outlives its end.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk(Arc<Mutex<BTreeMap<SpoolKey, Kept>>>);

/// A result, and the start of the process that has kept it.
#[derive(Debug)]
struct Kept {
    entry: SpoolEntry,
    by: u32,
}

impl Disk {
    /// Results that are still kept.
    pub(super) fn left(&self) -> usize {
        self.0.lock().len()
    }
}

/// The spool of a start of a process.
#[derive(Debug)]
pub(super) struct SpoolLink {
    pub(super) link: Arc<Link>,
    pub(super) disk: Disk,
}

impl SpoolLink {
    async fn open(&self) -> parking_lot::MutexGuard<'_, BTreeMap<SpoolKey, Kept>> {
        self.link.next("spool", &[]).await;
        self.disk.0.lock()
    }
}

#[async_trait]
impl Spool for SpoolLink {
    async fn put(&self, entry: &SpoolEntry) -> Result<(), SpoolError> {
        let kept = Kept {
            entry: entry.clone(),
            by: self.link.start,
        };
        self.open().await.insert(entry.key, kept);
        self.link.world.watch.reached("result kept in the spool");
        self.link.note(("spool", entry.key.task.0), || {
            format!("keeps a result of {}", entry.key.task)
        });
        Ok(())
    }

    async fn keys(&self) -> Result<Vec<SpoolKey>, SpoolError> {
        let entries = self.open().await;
        let mut keys: Vec<_> = entries
            .values()
            .map(|it| (it.entry.kept_at, it.entry.key))
            .collect();
        keys.sort_unstable();
        Ok(keys.into_iter().map(|(_, key)| key).collect())
    }

    async fn get(&self, key: &SpoolKey) -> Result<Option<SpoolEntry>, SpoolError> {
        let entries = self.open().await;
        let kept = entries.get(key);
        if kept.is_some_and(|kept| kept.by < self.link.start) {
            self.link.world.watch.reached("spool replayed");
        }
        Ok(kept.map(|kept| kept.entry.clone()))
    }

    async fn remove(&self, key: &SpoolKey) -> Result<(), SpoolError> {
        self.open().await.remove(key);
        self.link.world.watch.reached("spool cleared");
        Ok(())
    }

    fn stats(&self) -> SpoolStats {
        let entries = self.disk.0.lock();
        SpoolStats {
            entries: entries.len() as u64,
            bytes: entries.values().map(|it| it.entry.body.len() as u64).sum(),
            oldest: entries.values().map(|it| it.entry.kept_at).min(),
        }
    }
}
