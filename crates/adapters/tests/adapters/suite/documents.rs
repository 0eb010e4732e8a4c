//! Documents, whatever is in them: revisions, due times, pages, and that of many writers one wins.

use super::chain;
use counterstep_adapters::system::SystemRandom;
use counterstep_contracts::access::Role;
use counterstep_contracts::{Rev, Tenant};
use counterstep_kernel::access::api_keys::{self, KeySpec};
use counterstep_kernel::audit::admin_audit;
use counterstep_kernel::ports::{
    Document, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, DocumentsPut, DuePlace,
    Ports, Store,
};
use counterstep_reconciler::audit::Scope;
use counterstep_steps::times::DbTime;
use futures::future::join_all;

const KIND: DocumentKind = DocumentKind::Schedule;
const SECOND: i64 = 1_000_000;

fn put(name: &str, expected: Option<i64>, due_at: Option<DbTime>) -> DocumentWrite {
    DocumentWrite {
        kind: KIND,
        tenant: Tenant::default(),
        name: name.to_owned(),
        expected: expected.map(Rev),
        change: DocumentChange::Put {
            body: format!("{{\"of\":\"{name} ä\\u0000\"}}"),
            due_at,
        },
    }
}

async fn write(store: &Store, write: &DocumentWrite) -> bool {
    store.put_document(write).await.unwrap().is_some()
}

async fn find(store: &Store, query: &DocumentQuery) -> Vec<Document> {
    store.documents(query).await.unwrap().rows
}

/// The revision of one that is there; 0: there is none.
async fn rev_of(store: &Store, name: &str) -> Rev {
    let found = find(store, &named(KIND, &[name])).await;
    found.first().map_or(Rev(0), |row| row.rev)
}

async fn names(store: &Store, query: &DocumentQuery) -> Vec<String> {
    find(store, query)
        .await
        .into_iter()
        .map(|row| row.name)
        .collect()
}

fn named(kind: DocumentKind, names: &[&str]) -> DocumentQuery {
    DocumentQuery::Named {
        kind,
        tenant: Tenant::default(),
        names: names.iter().map(|&name| name.to_owned()).collect(),
    }
}

pub(crate) async fn a_document_comes_back_as_it_was_written(ports: &Ports) {
    let store = &ports.store;
    let nothing = store.documents(&named(KIND, &["a"])).await.unwrap();
    assert!(
        nothing.rows.is_empty() && nothing.now > DbTime(0),
        "the clock comes without a document, too"
    );
    let due = Some(DbTime(7 * SECOND));
    let new = put("a", Some(0), due);
    let now = store
        .put_document(&new)
        .await
        .unwrap()
        .expect("there was none");
    let DocumentChange::Put { body, due_at } = new.change else {
        panic!("a put")
    };
    let found = find(store, &named(KIND, &["a"])).await;
    let row = Document {
        tenant: new.tenant,
        name: new.name,
        rev: rev_of(store, "a").await,
        body,
        due_at,
        seen_at: now,
    };
    assert_eq!(found, std::slice::from_ref(&row));
    // A document of another kind, or of another tenant, is another one.
    assert_eq!(find(store, &named(DocumentKind::Worker, &["a"])).await, []);
    let other = DocumentWrite {
        tenant: Tenant("other".to_owned()),
        ..put("a", Some(0), None)
    };
    assert!(write(store, &other).await);
    let worker = DocumentWrite {
        kind: DocumentKind::Worker,
        ..put("a", Some(0), None)
    };
    assert!(write(store, &worker).await);
    assert_eq!(find(store, &named(KIND, &["a"])).await, [row]);
}

pub(crate) async fn a_document_changes_only_at_the_expected_revision(ports: &Ports) {
    let store = &ports.store;
    assert!(
        !write(store, &put("a", Some(1), None)).await,
        "there is none"
    );
    assert!(write(store, &put("a", Some(0), None)).await);
    let first = rev_of(store, "a").await.0;
    for (expected, written) in [
        (0, false),
        (first + 1, false),
        (first, true),
        (first, false),
        (-1, false),
    ] {
        assert_eq!(
            write(store, &put("a", Some(expected), None)).await,
            written,
            "{expected}"
        );
    }
    // Whatever it is.
    assert!(write(store, &put("a", None, None)).await && write(store, &put("b", None, None)).await);
    assert_eq!(rev_of(store, "a").await, Rev(first + 2));
    let delete = |expected| DocumentWrite {
        change: DocumentChange::Delete,
        ..put("a", expected, None)
    };
    assert!(!write(store, &delete(Some(first + 1))).await);
    assert!(write(store, &delete(Some(first + 2))).await);
    for expected in [Some(first + 2), Some(0), None] {
        assert!(
            !write(store, &delete(expected)).await,
            "it is gone: {expected:?}"
        );
    }
}

pub(crate) async fn what_was_decided_on_a_deleted_document_is_not_written_over_its_successor(
    ports: &Ports,
) {
    let store = &ports.store;
    assert!(write(store, &put("a", Some(0), None)).await);
    let read = rev_of(store, "a").await;
    let delete = DocumentWrite {
        change: DocumentChange::Delete,
        ..put("a", Some(read.0), None)
    };
    assert!(write(store, &delete).await);
    assert!(write(store, &put("a", Some(0), None)).await);
    let stale = put("a", Some(read.0), None);
    assert!(!write(store, &stale).await, "it is another one");
    assert!(!write(store, &delete).await, "it is another one");
}

pub(crate) async fn of_fifty_racing_writers_of_a_document_one_wins(ports: &Ports) {
    let store = &ports.store;
    for _ in 0..3 {
        let expected = rev_of(store, "a").await.0;
        let racing = put("a", Some(expected), None);
        let written = join_all((0..50).map(|_| write(store, &racing))).await;
        assert_eq!(
            written.into_iter().filter(|written| *written).count(),
            1,
            "{expected}"
        );
    }
}

pub(crate) async fn due_documents_come_in_the_order_of_their_times(ports: &Ports) {
    let store = &ports.store;
    let now = store.documents(&named(KIND, &[])).await.unwrap().now;
    let at = |seconds: i64| Some(DbTime(now.0 + seconds * SECOND));
    for (name, due) in [
        ("c", at(-30)),
        ("b", at(-20)),
        ("a", at(-20)),
        ("later", at(3600)),
        ("never", None),
    ] {
        assert!(write(store, &put(name, Some(0), due)).await);
    }
    let other = DocumentWrite {
        tenant: Tenant("other".to_owned()),
        ..put("0", Some(0), at(-20))
    };
    assert!(write(store, &other).await);
    let of_another_kind = DocumentWrite {
        kind: DocumentKind::Listing,
        ..put("x", Some(0), at(-40))
    };
    assert!(write(store, &of_another_kind).await);
    let mut after: Option<DuePlace> = None;
    let mut pages = Vec::new();
    loop {
        let page = find(
            store,
            &DocumentQuery::Due {
                kind: KIND,
                after: after.clone(),
                limit: 2,
            },
        )
        .await;
        let Some(last) = page.last() else { break };
        after = last.due_place();
        pages.push(page.iter().map(|row| row.name.as_str()).collect::<String>());
    }
    assert_eq!(pages, ["ca", "b0"], "by due time, tenant and name");
    for (tenant, names) in [(Tenant::default(), "ca"), (other.tenant, "0")] {
        let of_one = DocumentQuery::DueOf {
            kind: KIND,
            tenant,
            limit: 2,
        };
        let found = find(store, &of_one).await;
        let found: String = found.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(found, names);
    }
}

pub(crate) async fn documents_page_by_name_and_the_last_written_is_the_latest(ports: &Ports) {
    let store = &ports.store;
    for name in ["B", "c", "a", "b"] {
        assert!(write(store, &put(name, Some(0), None)).await);
    }
    let page = |after: Option<&str>, limit| DocumentQuery::Page {
        kind: KIND,
        tenant: Tenant::default(),
        after: after.map(str::to_owned),
        limit,
    };
    assert_eq!(
        names(store, &page(None, 3)).await,
        ["B", "a", "b"],
        "by bytes"
    );
    assert_eq!(names(store, &page(Some("b"), 3)).await, ["c"]);
    let latest = DocumentQuery::Latest {
        kind: KIND,
        limit: 2,
    };
    // Later, whatever the resolution of the database's clock.
    super::eventually("`c` is the latest", || async {
        assert!(write(store, &put("c", None, None)).await);
        let found = names(store, &latest).await;
        (found.len() == 2 && found[0] == "c").then_some(())
    })
    .await;
}

pub(crate) async fn documents_are_written_together_or_not_at_all(ports: &Ports) {
    let store = &ports.store;
    let both = [put("a", Some(0), None), put("b", Some(0), None)];
    let written = store.put(&both).await.unwrap();
    assert!(
        matches!(written, DocumentsPut::Written(now) if now > DbTime(0)),
        "{written:?}"
    );
    let all = named(KIND, &["a", "b", "c"]);
    let revs = |rows: Vec<Document>| rows.iter().map(|row| row.rev.0).collect::<Vec<_>>();
    let before = revs(find(store, &all).await);
    let [a, b] = before[..] else {
        panic!("{before:?}")
    };
    for (writes, refused) in [
        ([put("c", Some(0), None), put("a", Some(a + 1), None)], 1),
        ([put("a", Some(a + 6), None), put("c", Some(0), None)], 0),
        ([put("a", Some(a), None), put("b", Some(0), None)], 1),
    ] {
        let put = store.put(&writes).await.unwrap();
        assert_eq!(put, DocumentsPut::Refused(refused));
        assert_eq!(revs(find(store, &all).await), before);
    }
    let delete = DocumentWrite {
        change: DocumentChange::Delete,
        ..put("a", Some(a), None)
    };
    let put = store.put(&[delete, put("b", Some(b), None)]).await;
    assert!(matches!(put, Ok(DocumentsPut::Written(_))), "{put:?}");
    assert_eq!(revs(find(store, &all).await), [b + 1]);
}

pub(crate) async fn of_twenty_racing_changes_each_has_its_entry_in_one_chain(ports: &Ports) {
    let store = &ports.store;
    let make = |no: u32| async move {
        let spec = KeySpec {
            tenant: Tenant(format!("tenant-{}", no % 3)),
            subject: "kim".to_owned(),
            role: Role::Read,
            expires_in: None,
        };
        let (_, row) = api_keys::make(store, &SystemRandom, spec, "lee")
            .await
            .expect("a key");
        row.id
    };
    let mut made = join_all((0..20).map(make)).await;
    api_keys::revoke(store, &made[0], "lee")
        .await
        .expect("it is revoked");
    let entries = admin_audit::page(store, 0, 100).await.unwrap();
    let numbers: Vec<_> = entries.iter().map(|entry| entry.no).collect();
    assert_eq!(numbers, (1..=21).collect::<Vec<_>>());
    let last = entries[20].says().expect("an entry");
    assert_eq!((last.event.as_str(), &last.name), ("key_revoked", &made[0]));
    let mut said: Vec<_> = entries[..20]
        .iter()
        .map(|entry| entry.says().expect("an entry").name)
        .collect();
    said.sort_unstable();
    made.sort_unstable();
    assert_eq!(said, made);
    assert!(
        entries
            .iter()
            .all(|entry| entry.actor == "lee" && !entry.entries.contains("hash"))
    );
    let (verified, found) = chain::check(store, &Scope::default()).await;
    assert_eq!((verified.changes, found), (21, vec![]));
}
