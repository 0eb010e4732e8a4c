//! What stands in a part of PostgreSQL's write-ahead log: versions of rows, entries of indexes,
//! bytes. Read from the log itself, since the server's own counters follow later.

use super::golden::Counts;
use tokio_postgres::{Client, NoTls};

/// What was written to the log.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// By table, and whether an index had to follow.
    pub(super) row_versions: Counts,
    /// By index.
    pub(super) index_entries: Counts,
    /// Of all records that a transaction has caused.
    pub(super) bytes: u64,
}

/// A connection of the superuser, beside those that are counted.
pub(super) struct Log(Client);

/// Records of the server itself (checkpoints, snapshots for standbys) are no cost of a task.
const RECORDS: &str = "
    SELECT r.resource_manager, r.record_type, coalesce(c.relname, ''), count(*), sum(r.record_length)::bigint
    FROM pg_get_wal_records_info($1::text::pg_lsn, $2::text::pg_lsn) r
    LEFT JOIN pg_class c
      ON pg_relation_filenode(c.oid) = ((regexp_match(r.block_ref, 'rel \\d+/\\d+/(\\d+)'))[1])::oid
    WHERE r.resource_manager NOT IN ('XLOG', 'Standby')
    GROUP BY 1, 2, 3";

impl Log {
    pub(super) async fn open(url: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(url, NoTls)
            .await
            .expect("a connection");
        tokio::spawn(connection);
        client
            .batch_execute("CREATE EXTENSION pg_walinspect")
            .await
            .expect("an extension of PostgreSQL 15");
        Self(client)
    }

    /// Where the log ends now. Rows that are gone are cleared away before, so that no reader finds
    /// a page to tidy up.
    pub(super) async fn begin(&self) -> String {
        for command in ["VACUUM", "CHECKPOINT"] {
            self.0
                .batch_execute(command)
                .await
                .expect("a superuser may");
        }
        self.end().await
    }

    async fn end(&self) -> String {
        let question = "SELECT pg_current_wal_flush_lsn()::text";
        self.0
            .query_one(question, &[])
            .await
            .expect("a place in the log")
            .get(0)
    }

    pub(super) async fn since(&self, begin: &str) -> Written {
        let end = self.end().await;
        let mut written = Written::default();
        if begin == end {
            return written;
        }
        for row in self
            .0
            .query(RECORDS, &[&begin, &end])
            .await
            .expect("records of the log")
        {
            let (manager, kind, of): (&str, &str, &str) = (row.get(0), row.get(1), row.get(2));
            let (count, bytes): (i64, i64) = (row.get(3), row.get(4));
            let count = u64::try_from(count).unwrap_or_default();
            written.bytes += u64::try_from(bytes).unwrap_or_default();
            let kind = kind.trim_end_matches("+INIT");
            match (manager, kind) {
                ("Heap", "INSERT") => {
                    *written
                        .row_versions
                        .entry(format!("{of} inserted"))
                        .or_default() += count
                }
                ("Heap", "HOT_UPDATE") => {
                    *written
                        .row_versions
                        .entry(format!("{of} updated, no index"))
                        .or_default() += count;
                }
                ("Heap", "UPDATE") => {
                    *written
                        .row_versions
                        .entry(format!("{of} updated, with its indexes"))
                        .or_default() += count;
                }
                ("Heap", "DELETE") => {
                    *written
                        .row_versions
                        .entry(format!("{of} deleted"))
                        .or_default() += count
                }
                ("Heap", "LOCK" | "HEAP_CONFIRM") | ("Transaction", _) => {}
                ("Btree", "INSERT_LEAF") => {
                    *written.index_entries.entry(of.to_owned()).or_default() += count
                }
                // A kind that is not foreseen is to be seen.
                (manager, kind) => {
                    *written
                        .row_versions
                        .entry(format!("{of}: {manager} {kind}"))
                        .or_default() += count;
                }
            }
        }
        written
    }
}
