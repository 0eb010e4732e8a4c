//! The store on PostgreSQL.
