//! Amounts of money that requests and outputs of tasks declare, read from their rows. Must not know what they are summed for.

use crate::record::TaskRecord;
use crate::task::TaskType;
use counterstep_contracts::bulk::Amount;
use counterstep_steps::task::{AmountFields, AmountSums};
use std::collections::BTreeMap;

/// Which fields of each type are amounts, worked out once.
#[derive(Debug, Default)]
pub(crate) struct DeclaredAmounts(BTreeMap<(String, u32), OfType>);

#[derive(Debug)]
struct OfType {
    request: AmountFields,
    /// Of the output of each step.
    outputs: Vec<AmountFields>,
}

impl DeclaredAmounts {
    fn of(&mut self, task_type: &TaskType) -> &OfType {
        let key = (task_type.decl.name.to_owned(), task_type.decl.version);
        self.0.entry(key).or_insert_with(|| OfType {
            request: AmountFields::of(task_type.request_schema),
            outputs: (task_type.steps.iter())
                .map(|code| AmountFields::of(code.output_schema))
                .collect(),
        })
    }

    /// Adds what the request of a task names.
    pub(crate) fn add_request(
        &mut self,
        task_type: &TaskType,
        record: &TaskRecord,
        sums: &mut AmountSums,
    ) {
        let of = self.of(task_type);
        of.request.add(&record.task.request, sums);
    }

    /// Adds what the output of a step names; of one that has none yet, and would name amounts, what the request names.
    pub(crate) fn add_output(
        &mut self,
        task_type: &TaskType,
        record: &TaskRecord,
        at: usize,
        sums: &mut AmountSums,
    ) {
        let of = self.of(task_type);
        let Some(fields) = of.outputs.get(at).filter(|it| !it.is_empty()) else {
            return;
        };
        match record.steps.get(at).and_then(|row| row.output.as_ref()) {
            Some(output) => fields.add(output, sums),
            None => of.request.add(&record.task.request, sums),
        }
    }
}

/// Sums as they are answered.
pub(crate) fn listed(sums: &AmountSums) -> Vec<Amount> {
    let all = sums.iter().map(|(currency, sum)| Amount {
        currency: currency.to_owned(),
        sum,
    });
    all.collect()
}
