//! An execution whose code runs in another process: what goes there, and what this process does for it. The
//! other one is not trusted with more than its code would be here.

use crate::context::{Execution, ObjectsContext, StepContext};
use crate::ports::{ByteStream, ObjectError, ServiceAnswer, ServiceError, ServiceRequest};
use crate::sql::Sql;
use crate::task::TaskFacts;
use std::sync::atomic::Ordering;

impl StepContext {
    /// Which execution it is of.
    #[must_use]
    pub const fn execution(&self) -> &Execution {
        &self.execution
    }

    /// What is known of its task.
    #[must_use]
    pub const fn facts(&self) -> &TaskFacts {
        &self.facts
    }

    /// Calls a service for the other process.
    ///
    /// # Errors
    /// As the service says.
    pub async fn call_for(&self, request: ServiceRequest) -> Result<ServiceAnswer, ServiceError> {
        self.services.http.call(request).await
    }

    /// Takes over what the code has left to be done with its success, and whether its last call provably
    /// did not reach its service.
    pub fn take_over(&self, sql: Vec<Sql>, unsent: bool) {
        for statement in sql {
            self.in_transaction(statement);
        }
        self.services.unsent.store(unsent, Ordering::Relaxed);
    }
}

fn elsewhere(key: &str) -> ObjectError {
    ObjectError::Refused(format!("`{}` is not of this execution", key.escape_debug()))
}

impl ObjectsContext {
    /// Stores an object for the other process: under the prefix of the execution only.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub async fn put_for(
        &self,
        bucket: &str,
        key: &str,
        body: ByteStream,
    ) -> Result<u64, ObjectError> {
        if !key.starts_with(&self.prefix) {
            return Err(elsewhere(key));
        }
        *self.written.lock() = true;
        self.objects.put(bucket, key, body).await
    }

    /// Reads an object of the task for the other process.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub async fn get_for(&self, bucket: &str, key: &str) -> Result<ByteStream, ObjectError> {
        if !key.starts_with(&self.own) {
            return Err(elsewhere(key));
        }
        self.objects.get(bucket, key).await
    }

    /// Deletes what attempts of the step have stored, for the other process.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub async fn delete_for(&self, prefix: &str) -> Result<u64, ObjectError> {
        if prefix != self.step_prefix {
            return Err(elsewhere(prefix));
        }
        self.objects.delete_prefix(prefix).await
    }
}
