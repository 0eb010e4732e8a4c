//! Which labels of tasks metrics carry. Must not count anything.

use super::kinds::Kind;
use crate::exit::Exit;
use crate::metrics::label_key;
use clap::{Arg, ArgMatches};
use counterstep_contracts::LabelError;
use counterstep_contracts::labels::is_label_name;

/// Maximum number of labels: each multiplies the series.
const MOST: usize = 4;

/// Names of labels, each with a name of its own in metrics.
pub struct MetricsLabels;

impl Kind for MetricsLabels {
    type Raw = Vec<String>;
    type Value = Vec<String>;
    const NAME: &'static str = "LIST";

    fn arg(arg: Arg) -> Arg {
        Vec::<String>::arg(arg)
    }

    fn given(matches: &ArgMatches, key: &str) -> Option<Vec<String>> {
        Vec::<String>::given(matches, key)
    }

    fn check(key: &str, raw: Vec<String>) -> Result<Vec<String>, Exit> {
        let invalid = |why: String| Err(Exit::config(format_args!("setting `{key}`: {why}")));
        if raw.len() > MOST {
            return invalid(format!("too many labels; expected at most {MOST}"));
        }
        for (at, name) in raw.iter().enumerate() {
            if !is_label_name(name) {
                return invalid(LabelError::Name(name.clone()).to_string());
            }
            let same = |other: &&String| label_key(other) == label_key(name);
            if let Some(other) = raw[..at].iter().find(same) {
                return invalid(format!(
                    "invalid labels `{other}` and `{name}`: both have one name in metrics, `{}`; expected one of them",
                    label_key(name)
                ));
            }
        }
        Ok(raw)
    }

    fn shown(value: &Vec<String>) -> String {
        Vec::<String>::shown(value)
    }
}
