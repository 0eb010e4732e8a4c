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

    /// Adds what the output of a step names.
    pub(crate) fn add_output(
        &mut self,
        task_type: &TaskType,
        record: &TaskRecord,
        at: usize,
        sums: &mut AmountSums,
    ) {
        let fields = self.of(task_type).outputs.get(at);
        let output = record.steps.get(at).and_then(|row| row.output.as_ref());
        if let (Some(fields), Some(output)) = (fields, output) {
            fields.add(output, sums);
        }
    }

    /// The same; of a step that has no output yet, and whose output would name amounts, what the request names.
    pub(crate) fn add_output_or_request(
        &mut self,
        task_type: &TaskType,
        record: &TaskRecord,
        at: usize,
        sums: &mut AmountSums,
    ) {
        let names_some = |it: &AmountFields| !it.is_empty();
        let has_output = record.steps.get(at).is_some_and(|row| row.output.is_some());
        match self.of(task_type).outputs.get(at).is_some_and(names_some) && !has_output {
            true => self.add_request(task_type, record, sums),
            false => self.add_output(task_type, record, at, sums),
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
