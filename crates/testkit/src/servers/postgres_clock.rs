//! The time of PostgreSQL databases, as far as a test advances it.
//!
//! Statements take the time from `now()`. The server looks for a function without a schema in
//! `pg_catalog` first, unless the search path names that schema behind another one: then a function
//! of the same name in that one is found. So the product's statements, functions and rights stay as
//! they are, and only a database of a test has another time.

use super::postgres::sql;
use parking_lot::Mutex;
use std::sync::Arc;

/// STABLE, as the server's: a statement reads the row once, as of its own snapshot.
const CLOCK: &str = "
    CREATE TABLE public.test_clock (ahead INTERVAL NOT NULL);
    INSERT INTO public.test_clock VALUES (INTERVAL '0');
    GRANT SELECT ON public.test_clock TO PUBLIC;
    CREATE FUNCTION public.now() RETURNS TIMESTAMPTZ LANGUAGE sql STABLE PARALLEL SAFE
        AS 'SELECT pg_catalog.now() + ahead FROM public.test_clock';
    DO $$ BEGIN
        EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database());
    END $$";

/// Databases whose time is advanced together. Clones are one set.
#[derive(Debug, Clone, Default)]
pub(crate) struct DatabaseClocks {
    urls: Arc<Mutex<Vec<String>>>,
}

impl DatabaseClocks {
    /// Replaces the time of a database, for sessions that begin from now on: by one that is `ahead`
    /// microseconds ahead of the server's, or behind it.
    pub(crate) fn add(&self, url: &str, ahead: i128) {
        sql(url, CLOCK).unwrap_or_else(|error| panic!("no clock in {url}: {error}"));
        advance_in(url, ahead);
        self.urls.lock().push(url.to_owned());
    }

    /// Lets `by` microseconds pass.
    pub(crate) fn advance(&self, by: i128) {
        for url in self.urls.lock().iter() {
            advance_in(url, by);
        }
    }
}

fn advance_in(url: &str, micros: i128) {
    let update = format!(
        "UPDATE public.test_clock SET ahead = ahead + INTERVAL '1 microsecond' * ({micros})"
    );
    sql(url, &update).unwrap_or_else(|error| panic!("the clock of {url} stays: {error}"));
}
