//! Lists by label, failure and time.

use super::changes::*;
use counterstep_contracts::cause::Origin;
use counterstep_contracts::{Labels, TaskId, TaskStatus, Tenant};
use counterstep_kernel::ports::{
    FailureFilter, LabelQuery, ListOrder, MOST_SUCCESSORS, Ports, Store, TaskPage, TaskQuery,
    first_id_at,
};
use counterstep_kernel::record::{Failure, TaskRow};
use futures::future::join_all;
use uuid::Uuid;

pub(crate) fn labels(labels: &[(&str, &str)]) -> Labels {
    let mut made = Labels::new();
    for (name, value) in labels {
        made.add(name, value).unwrap();
    }
    made
}

async fn labelled(store: &Store, with: &[(&str, &str)]) -> TaskId {
    let row = TaskRow {
        labels: labels(with),
        ..row(new_task())
    };
    submitted(store, row).await.task.id
}

/// A query of the default tenant.
fn query(by: &[(&str, &str)]) -> TaskQuery {
    TaskQuery {
        tenant: Some(Tenant::default()),
        labels: labels(by),
        limit: 100,
        ..TaskQuery::default()
    }
}

async fn page(store: &Store, query: &TaskQuery) -> TaskPage {
    store.list(query).await.unwrap()
}

async fn found(store: &Store, query: &TaskQuery) -> Vec<TaskId> {
    let TaskPage { lines, looked_to } = page(store, query).await;
    assert_eq!(looked_to, None, "few tasks are looked at to the end");
    lines.iter().map(|line| line.task).collect()
}

pub(crate) async fn tasks_that_run_one_again_are_found_the_newest_first(ports: &Ports) {
    let store = &ports.store;
    let again = async |of: TaskId, tenant: &str| {
        let mut row = TaskRow {
            tenant: Tenant(tenant.into()),
            ..row(new_task())
        };
        row.labels.set_predecessor(of, None);
        submitted(store, row).await.task.id
    };
    let of = async |tenant: &str, task| {
        let tenant = Tenant(tenant.into());
        store.successors(&tenant, task).await.unwrap()
    };
    let (task, other, alone) = (new_task(), new_task(), new_task());
    let mut newest = Vec::new();
    for _ in 0..=MOST_SUCCESSORS {
        newest.insert(0, again(task, "default").await);
    }
    let of_another = again(other, "default").await;
    let of_acme = again(task, "acme").await;
    newest.truncate(MOST_SUCCESSORS as usize);

    // Many at once get what each would have got alone.
    let asked = join_all([
        of("default", task),
        of("default", other),
        of("acme", task),
        of("acme", other),
        of("default", alone),
        of("default", task),
    ]);
    let expected = [
        &newest[..],
        &[of_another],
        &[of_acme],
        &[],
        &[],
        &newest[..],
    ];
    assert_eq!(asked.await, expected);
}

pub(crate) async fn a_task_keeps_its_labels_and_is_found_by_all_of_them(ports: &Ports) {
    let store = &ports.store;
    let odd = "Größe: 3\", \\ 100 %, = ?";
    let first = labelled(store, &[("order", "4711"), ("customer", "7")]).await;
    let second = labelled(
        store,
        &[("order", "4711"), ("customer", "8"), ("x.y-z_0", odd)],
    )
    .await;
    let plain = submitted(store, row(new_task())).await;
    let other = TaskRow {
        tenant: Tenant("acme".into()),
        labels: labels(&[("order", "4711")]),
        ..row(new_task())
    };
    let other = submitted(store, other).await.task.id;

    let record = load(store, second).await;
    assert_eq!(record.task.labels.get("x.y-z_0"), Some(odd));
    assert_eq!((record.task.labels.len(), plain.task.labels.len()), (3, 0));
    // A change of the task leaves them.
    let claimed = claim(&record, "one", MINUTE);
    commit(store, free(&record), &claimed).await.unwrap();
    assert_eq!(load(store, second).await.task.labels, record.task.labels);

    let by = async |by: &[(&str, &str)]| found(store, &query(by)).await;
    assert_eq!(by(&[("order", "4711")]).await, [second, first]);
    assert_eq!(by(&[("order", "4711"), ("customer", "7")]).await, [first]);
    assert_eq!(by(&[("x.y-z_0", odd)]).await, [second]);
    assert_eq!(by(&[("order", "4711"), ("customer", "9")]).await, []);
    assert_eq!(by(&[("order", "471")]).await, []);
    assert_eq!(by(&[("orde", "r4711")]).await, []);
    let of_acme = TaskQuery {
        tenant: Some(Tenant("acme".into())),
        ..query(&[("order", "4711")])
    };
    assert_eq!(found(store, &of_acme).await, [other]);
    let of_all = TaskQuery {
        tenant: None,
        ..query(&[("order", "4711")])
    };
    assert_eq!(found(store, &of_all).await, [other, second, first]);

    let lines = page(store, &query(&[])).await.lines;
    let shown: Vec<_> = lines.iter().map(|line| line.labels.len()).collect();
    assert_eq!(shown, [0, 3, 2]);
}

pub(crate) async fn names_and_values_of_labels_are_read_in_their_order(ports: &Ports) {
    let store = &ports.store;
    for (name, value) in [
        ("order", "4711"),
        ("order", "4712"),
        ("order", "5"),
        ("customer", "4711"),
        ("ork", "x_y%"),
    ] {
        labelled(store, &[(name, value)]).await;
    }
    let other = TaskRow {
        tenant: Tenant("acme".into()),
        labels: labels(&[("orders", "4711")]),
        ..row(new_task())
    };
    submitted(store, other).await;
    let tenant = Tenant::default();
    let names = async |prefix: &str, limit| {
        let (tenant, prefix) = (tenant.clone(), prefix.to_owned());
        let query = LabelQuery::Names {
            tenant,
            prefix,
            limit,
        };
        store.labels(&query).await.unwrap()
    };
    assert_eq!(names("", 9).await, ["customer", "order", "ork"]);
    assert_eq!(names("", 2).await, ["customer", "order"]);
    assert_eq!(names("or", 9).await, ["order", "ork"]);
    assert_eq!(names("z", 9).await, [] as [&str; 0]);
    let values = async |name: &str, prefix: &str, limit| {
        let (tenant, name, prefix) = (tenant.clone(), name.to_owned(), prefix.to_owned());
        let query = LabelQuery::Values {
            tenant,
            name,
            prefix,
            limit,
        };
        store.labels(&query).await.unwrap()
    };
    assert_eq!(values("order", "47", 9).await, ["4711", "4712"]);
    assert_eq!(values("order", "", 1).await, ["4711"]);
    assert_eq!(values("ork", "x_y%", 9).await, ["x_y%"]);
    assert_eq!(values("ork", "%", 9).await, [] as [&str; 0]);
    assert_eq!(values("orders", "", 9).await, [] as [&str; 0]);
    let with = |value: &str| LabelQuery::With {
        tenant: tenant.clone(),
        names: ["customer", "order", "orders", "ork"]
            .map(str::to_owned)
            .to_vec(),
        value: value.to_owned(),
    };
    let mut found = store.labels(&with("4711")).await.unwrap();
    found.sort();
    assert_eq!(found, ["customer", "order"]);
    assert_eq!(store.labels(&with("471")).await.unwrap(), [] as [&str; 0]);
}

pub(crate) async fn a_list_is_read_from_either_end_and_by_the_ending_of_an_id(ports: &Ports) {
    let store = &ports.store;
    let mut all = Vec::new();
    for number in 0..5_u32 {
        let number = number.to_string();
        all.push(labelled(store, &[("n", &number), ("all", "x")]).await);
    }
    let oldest = |by: &[(&str, &str)]| TaskQuery {
        order: ListOrder::Oldest,
        ..query(by)
    };
    for by in [&[][..], &[("all", "x")], &[("all", "x"), ("n", "3")]] {
        let mut newest = found(store, &query(by)).await;
        newest.reverse();
        assert_eq!(found(store, &oldest(by)).await, newest, "{by:?}");
        for statuses in [
            vec![TaskStatus::Dispatched],
            vec![TaskStatus::Dispatched, TaskStatus::Failed],
        ] {
            let of_states = TaskQuery {
                statuses,
                ..oldest(by)
            };
            assert_eq!(found(store, &of_states).await, newest, "{of_states:?}");
        }
    }
    let two = TaskQuery {
        limit: 2,
        ..oldest(&[])
    };
    let first = page(store, &two).await.lines;
    let tasks = |lines: &[counterstep_kernel::ports::TaskLine]| {
        lines.iter().map(|it| it.task).collect::<Vec<_>>()
    };
    assert_eq!(tasks(&first), all[..2]);
    let next = page(store, &two.behind(all[1])).await.lines;
    assert_eq!(tasks(&next), all[2..4]);

    let whole = all[2].0.as_simple().to_string();
    let ending = |text: &str| TaskQuery {
        ending: Some(text.to_owned()),
        ..query(&[])
    };
    assert_eq!(found(store, &ending(&whole[20..])).await, [all[2]]);
    assert_eq!(found(store, &ending(&whole[..20])).await, []);
    let labelled = TaskQuery {
        labels: labels(&[("n", "1")]),
        ..ending(&whole[20..])
    };
    assert_eq!(found(store, &labelled).await, []);
}

pub(crate) async fn changes_that_are_written_together_keep_their_labels_apart(ports: &Ports) {
    let store = &ports.store;
    let tasks = (0..40).map(|n| {
        let number = n.to_string();
        let row = TaskRow {
            labels: match n % 3 {
                0 => Labels::new(),
                1 => labels(&[("n", &number)]),
                _ => labels(&[("n", &number), ("all", "x")]),
            },
            ..row(new_task())
        };
        submitted(store, row)
    });
    let records = join_all(tasks).await;
    for (n, record) in records.iter().enumerate() {
        let number = n.to_string();
        let expected = if n % 3 == 0 {
            vec![]
        } else {
            vec![record.task.id]
        };
        assert_eq!(
            found(store, &query(&[("n", &number)])).await,
            expected,
            "{n}"
        );
    }
    assert_eq!(found(store, &query(&[("all", "x")])).await.len(), 13);
}

pub(crate) async fn a_list_by_label_pages_from_the_newest_and_takes_the_other_filters(
    ports: &Ports,
) {
    let store = &ports.store;
    let mut made = Vec::new();
    for n in 0..6 {
        let row = TaskRow {
            labels: labels(&[("region", "eu")]),
            task_type: if n % 2 == 0 { "Zip" } else { "Transfer" }.to_owned(),
            status: [
                TaskStatus::Dispatched,
                TaskStatus::Completed,
                TaskStatus::Failed,
            ][n % 3],
            ..row(new_task())
        };
        made.push(submitted(store, row).await.task.id);
        labelled(store, &[("region", "us")]).await;
    }
    made.reverse();
    let eu = query(&[("region", "eu")]);
    let two = TaskQuery {
        limit: 2,
        ..eu.clone()
    };
    assert_eq!(found(store, &two).await, made[..2]);
    let next = TaskQuery {
        before: Some(made[1]),
        ..two.clone()
    };
    assert_eq!(found(store, &next).await, made[2..4]);
    let of_type = TaskQuery {
        task_type: Some("Transfer".into()),
        ..eu.clone()
    };
    assert_eq!(found(store, &of_type).await, [made[0], made[2], made[4]]);
    let in_states = |statuses: &[TaskStatus]| TaskQuery {
        statuses: statuses.to_vec(),
        ..eu.clone()
    };
    let ended = in_states(&[TaskStatus::Completed, TaskStatus::Failed]);
    assert_eq!(
        found(store, &ended).await,
        [made[0], made[1], made[3], made[4]]
    );
    let failed = TaskQuery {
        limit: 1,
        ..in_states(&[TaskStatus::Failed])
    };
    assert_eq!(found(store, &failed).await, [made[0]]);
    let of_all_tenants = TaskQuery {
        tenant: None,
        ..ended.clone()
    };
    assert_eq!(
        found(store, &of_all_tenants).await,
        [made[0], made[1], made[3], made[4]]
    );
    // The states without a label.
    let ended = TaskQuery {
        labels: Labels::new(),
        ..ended
    };
    assert_eq!(
        found(store, &ended).await,
        [made[0], made[1], made[3], made[4]]
    );
}

pub(crate) async fn a_list_ends_at_its_times(ports: &Ports) {
    let store = &ports.store;
    let at = |millis: u64| {
        TaskId(Uuid::from_u128(
            first_id_at(millis).0.as_u128() | 0x7000_8000_0000_0000_0001,
        ))
    };
    let mut made = Vec::new();
    for millis in [1_000, 2_000, 2_001, 3_000] {
        let row = TaskRow {
            labels: labels(&[("a", "b")]),
            ..row(at(millis))
        };
        made.push(submitted(store, row).await.task.id);
    }
    for by in [&[][..], &[("a", "b")]] {
        let within = TaskQuery {
            from: Some(first_id_at(2_000)),
            before: Some(first_id_at(3_000)),
            ..query(by)
        };
        assert_eq!(found(store, &within).await, [made[2], made[1]]);
        let since = TaskQuery {
            from: Some(first_id_at(2_001)),
            ..query(by)
        };
        assert_eq!(found(store, &since).await, [made[3], made[2]]);
    }
}

pub(crate) async fn a_failure_is_found_by_its_class_and_by_what_it_says(ports: &Ports) {
    let store = &ports.store;
    let failed = async |class: &str, message: &str| {
        let row = TaskRow {
            status: TaskStatus::Failed,
            failure: Some(Failure {
                step: Some("refused".into()),
                class: class.into(),
                message: message.into(),
                ..Failure::default()
            }),
            labels: labels(&[("a", "b")]),
            ..row(new_task())
        };
        submitted(store, row).await.task.id
    };
    let refused = failed("permanent", "the bank said \"no\"\nand hung up").await;
    let late = failed("timed_out", "permanent: no answer in 30 s").await;
    submitted(store, row(new_task())).await;
    // A parked task is found by what blocks it, and by that alone.
    let parked = TaskRow {
        status: TaskStatus::CompensationFailed,
        failure: Some(Failure {
            class: "cancelled".into(),
            message: "it was cancelled".into(),
            blocked_by: Some(Box::new(Failure {
                class: "rate_limited".into(),
                message: "the refund has to wait".into(),
                origin: Some(Box::new(Origin::call("bank", "POST"))),
                ..Failure::default()
            })),
            ..Failure::default()
        }),
        labels: labels(&[("a", "b")]),
        ..row(new_task())
    };
    let parked = submitted(store, parked).await.task.id;
    for by in [&[][..], &[("a", "b")]] {
        let found = async |class: Option<&str>, text: Option<&str>| {
            let failure = FailureFilter {
                class: class.map(str::to_owned),
                text: text.map(str::to_owned),
            };
            found(
                store,
                &TaskQuery {
                    failure,
                    ..query(by)
                },
            )
            .await
        };
        assert_eq!(found(Some("permanent"), None).await, [refused]);
        assert_eq!(found(Some("timed_out"), None).await, [late]);
        assert_eq!(found(Some("lost"), None).await, []);
        assert_eq!(found(Some("rate_limited"), None).await, [parked]);
        assert_eq!(found(Some("rate_limited"), Some("refund")).await, [parked]);
        assert_eq!(found(Some("cancelled"), None).await, []);
        assert_eq!(found(None, Some("was cancelled")).await, []);
        assert_eq!(found(None, Some("bank\",")).await, [], "no text");
        assert_eq!(found(None, Some("said \"no\"\nand")).await, [refused]);
        assert_eq!(found(None, Some("no")).await, [late, refused]);
        assert_eq!(found(Some("permanent"), Some("no")).await, [refused]);
        // Neither what stands beside the message, nor how JSON writes a line's end, nor another case.
        for text in ["refused", "timed_out", "nand hung", "\\n", "Bank"] {
            assert_eq!(found(None, Some(text)).await, [], "{text}");
        }
    }
}

pub(crate) async fn a_search_looks_at_so_many_tasks_and_can_be_gone_on_with(ports: &Ports) {
    let store = &ports.store;
    let rare = labelled(store, &[("all", "x"), ("rare", "y")]).await;
    let most = usize::try_from(TaskQuery::MOST_CANDIDATES).unwrap();
    join_all((0..most).map(|_| labelled(store, &[("all", "x")]))).await;
    let mut search = TaskQuery {
        statuses: vec![TaskStatus::Failed],
        ..query(&[("all", "x")])
    };
    let first = page(store, &search).await;
    assert_eq!(first.lines, []);
    assert!(first.looked_to.is_some_and(|to| to > rare), "{first:?}");
    search.before = first.looked_to;
    assert_eq!(found(store, &search).await, []);

    // By the failure, which no index has.
    let unlike = TaskQuery {
        failure: FailureFilter {
            class: Some("permanent".into()),
            text: None,
        },
        ..query(&[])
    };
    assert!(page(store, &unlike).await.looked_to.is_some());
    // With one label all that is read fits.
    let one = page(
        store,
        &TaskQuery {
            limit: 10,
            ..query(&[("all", "x")])
        },
    )
    .await;
    assert_eq!((one.lines.len(), one.looked_to), (10, None));
    assert_eq!(found(store, &query(&[("rare", "y")])).await, [rare]);
}
