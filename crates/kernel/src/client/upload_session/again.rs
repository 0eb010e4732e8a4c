//! A submission that runs another task again. Its files are copied under a receive of its own, as those of a
//! client are stored, and are checked on the way; nothing of the old task is kept from retention.

use super::UploadSession;
use crate::builtin::FileSource;
use crate::client::request_edit;
use crate::client::request_uploads;
use crate::client::run_again::{
    AgainError, CannotKeep, FileRef, Place, Plan, foreign, refs, renamed,
};
use crate::client::submission::{Submission, SubmitError, Submitted, from_objects, invalid};
use crate::digest::measured;
use crate::draft::{Again, KeptStep};
use crate::engine::Engine;
use crate::keys;
use crate::ports::ObjectError;
use crate::task::TaskType;
use counterstep_contracts::Labels;
use futures::TryStreamExt;
use futures::future::BoxFuture;
use std::collections::{BTreeSet, HashMap};

/// Why a file is not there.
const DELETED: &str = "it was deleted, with an undo or by retention";

/// A file that is to be copied.
struct Copy {
    from: FileRef,
    /// The step whose file it becomes.
    at: usize,
    bucket: String,
}

impl UploadSession {
    /// Starts to submit it, however many tasks wait: an operator has it run.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub(in crate::client) fn again(
        engine: &Engine,
        task_type: TaskType,
        submission: Submission,
        plan: Plan,
    ) -> BoxFuture<'_, Result<Self, SubmitError>> {
        Box::pin(async move {
            let mut session = Self::of_schedule(engine, task_type, submission).await?;
            session.whole = Some(plan.request.clone());
            session.again = Some(plan);
            Ok(session)
        })
    }

    /// Copies its files and makes the task.
    ///
    /// # Errors
    /// [`AgainError`]. What it stored stays until [`abandon`](Self::abandon).
    pub(in crate::client) fn run_again(&mut self) -> BoxFuture<'_, Result<Submitted, AgainError>> {
        Box::pin(async move {
            self.copy_files().await?;
            Ok(self.submit().await?)
        })
    }

    /// Whether the files that it would copy are there, by one listing of what the task has stored.
    ///
    /// # Errors
    /// [`AgainError`], as [`run_again`](Self::run_again).
    pub(in crate::client) async fn files_are_there(&self) -> Result<(), AgainError> {
        let Some(plan) = &self.again else {
            return Ok(());
        };
        let copies = self.copies(plan)?;
        if copies.is_empty() {
            return Ok(());
        }
        let prefix = keys::task_prefix(&self.submission.tenant, plan.predecessor);
        let listed = self.engine.ports.objects.list(&prefix);
        let places = listed.map_ok(|object| (object.bucket, object.key));
        let there: BTreeSet<Place> = places.try_collect().await.map_err(from_objects)?;
        let mut own = copies.into_iter().map(|copy| copy.from.place);
        match own.find(|place| place.1.starts_with(&prefix) && !there.contains(place)) {
            Some((_, name)) => Err(AgainError::FilesGone { name, why: DELETED }),
            None => Ok(()),
        }
    }

    /// Whether a step before the point from which it runs is at this position.
    pub(super) fn keeps(&self, at: usize) -> bool {
        self.again.as_ref().is_some_and(|plan| at < plan.kept.len())
    }

    async fn copy_files(&mut self) -> Result<(), AgainError> {
        let Some(plan) = self.again.clone().filter(|_| self.replay.is_none()) else {
            return Ok(());
        };
        let mut moved = HashMap::<Place, Place>::new();
        for copy in self.copies(&plan)? {
            // The first file claims the key, and may only then find it used.
            let Some(n) = self.open(copy.at).await? else {
                return Ok(());
            };
            let key = keys::object_key(&self.prefix(copy.at), n);
            self.copy(&copy, &key).await?;
            self.keys.insert(key.clone());
            moved.insert(copy.from.place, (copy.bucket, key));
        }
        let Some(plan) = &mut self.again else {
            return Ok(());
        };
        renamed(&mut plan.request, &moved);
        for step in &mut plan.kept {
            step.has_files = self.received.contains_key(&step.at);
            if let Some(output) = &mut step.output {
                renamed(output, &moved);
            }
        }
        self.whole = Some(plan.request.clone());
        Ok(())
    }

    /// Each file once: those of the outputs that are kept, and those of the request that belong to the steps
    /// which its submission carries out.
    fn copies(&self, plan: &Plan) -> Result<Vec<Copy>, AgainError> {
        let decl = self.task_type.decl;
        let mut copies = Vec::<Copy>::new();
        let uploaded = request_edit::files(&plan.request);
        let outputs = plan.kept.iter().filter_map(|step| step.output.as_ref());
        let of_others = outputs
            .chain([&plan.request])
            .filter_map(|value| foreign(value, plan.predecessor));
        for name in of_others {
            if !uploaded.iter().any(|file| file.key == name) {
                let why = "it belongs to another task, which may delete it";
                return Err(AgainError::FilesGone { name, why });
            }
        }
        for KeptStep { at, output, .. } in &plan.kept {
            let name = decl.steps[*at].name;
            let output = output.as_ref();
            let found = output.map(|output| refs(output, plan.predecessor));
            let found = found
                .unwrap_or(Ok(Vec::new()))
                .map_err(|_| CannotKeep::KeyAlone(name))?;
            for from in found {
                let is_known = copies.iter().any(|copy| copy.from.place == from.place);
                let at = decl.steps.iter().position(|step| step.name == from.step);
                match at {
                    _ if is_known => {}
                    Some(at) if self.keeps(at) => {
                        let bucket = from.place.0.clone();
                        copies.push(Copy { from, at, bucket });
                    }
                    _ => return Err(CannotKeep::KeyAlone(name).into()),
                }
            }
        }
        let uploads = request_uploads(&self.engine, &self.task_type, &plan.request)
            .map_err(|error| self.of_declaration(error))?;
        for file in uploaded {
            let place = (file.bucket.clone(), file.key.clone());
            if copies.iter().any(|copy| copy.from.place == place) {
                continue;
            }
            let takes =
                |source: &FileSource| matches!(source, FileSource::Request(of) if *of == file);
            let mut uploads = uploads.iter().filter(|(at, _)| !self.keeps(*at));
            let step =
                uploads.find(|(_, upload)| upload.sources.iter().any(|(source, _)| takes(source)));
            let Some((at, upload)) = step else {
                let why = "no upload step of the task takes this file";
                return Err(SubmitError::from(invalid(&file.field, why)).into());
            };
            keys::check_bucket_name(&upload.bucket).map_err(SubmitError::Declaration)?;
            copies.push(Copy {
                from: FileRef {
                    place,
                    step: decl.steps[*at].name.to_owned(),
                    size_bytes: file.size_bytes,
                    sha256: file.sha256,
                },
                at: *at,
                bucket: upload.bucket.clone(),
            });
        }
        Ok(copies)
    }

    async fn copy(&self, copy: &Copy, key: &str) -> Result<(), AgainError> {
        let objects = &self.engine.ports.objects;
        let (bucket, from) = &copy.from.place;
        let gone = |why| AgainError::FilesGone {
            name: from.clone(),
            why,
        };
        let body = match objects.get(bucket, from).await {
            Err(ObjectError::NotFound(_)) => {
                return Err(gone(DELETED));
            }
            body => body.map_err(from_objects)?,
        };
        let (body, digest) = measured(body);
        let size_bytes = objects
            .put(&copy.bucket, key, body)
            .await
            .map_err(from_objects)?;
        let is_whole = size_bytes == copy.from.size_bytes && digest.finish() == copy.from.sha256;
        is_whole
            .then_some(())
            .ok_or_else(|| gone("it is not what the task had stored"))
    }

    /// What its first change says of the task that it runs again.
    pub(super) fn again_write(&self) -> Option<Again> {
        let plan = self.again.as_ref()?;
        Some(Again {
            details: plan.details.clone(),
            kept: plan.kept.clone(),
        })
    }

    /// Those of its type first, then those of the task that it runs again, and those that name it.
    pub(super) fn labels_again(&self, plan: &Plan) -> Result<Labels, SubmitError> {
        let mut labels = Labels::new();
        let made = self.engine.declared_labels(&self.task_type, &plan.request);
        for (name, value) in made.map_err(|error| self.of_declaration(error))? {
            labels.add(name, &value)?;
        }
        for (name, value) in plan.labels.iter() {
            // One that the type has made, one too many, or one that names an earlier task.
            let _ = labels.add(name, value);
        }
        labels.set_predecessor(plan.predecessor, plan.from.as_deref());
        Ok(labels)
    }
}
