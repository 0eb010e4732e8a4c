//! A few power cuts, and that they would show what is not synced. All of them: `cargo xtask power`.

use counterstep_tests::power::{Cuts, DATABASE, Record, SPOOLED};
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_beside");

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_there_after_a_power_cut() {
    let record = Record::of(Path::new(PROGRAM), 12).await;
    let cuts = Cuts {
        seed: 7,
        count: 21,
        never_synced: &[],
    };
    let report = record.cut(cuts).await;
    println!("{report}");
    assert!(report.lost.is_empty(), "{report}");
    assert!(report.tasks > 0 && report.spooled > 0, "{report}");
    // The control: where the files of one of them are never synced, it is not.
    for never_synced in [DATABASE, SPOOLED] {
        let control = Cuts {
            count: 3,
            never_synced,
            ..cuts
        };
        let report = record.cut(control).await;
        assert!(!report.lost.is_empty(), "{never_synced:?}: {report}");
    }
}
