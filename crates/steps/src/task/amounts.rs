//! Amounts of money in requests and outputs: which fields are some, by the extension `x-amount` of their schemas, and their sums.
//! `#[schemars(extend("x-amount" = {"minor": 2, "currency": "EUR"}))]` stands on a field of whole numbers, and `minor` is how many
//! of its digits stand behind the point; with `"currency_field": "currency"` the field of that name beside it has the currency.

use super::types::SchemaFn;
use schemars::SchemaGenerator;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Maximum number of schemas in each other that are looked through, so that a type may name itself; and of amounts of a type.
const DEEPEST: usize = 12;
const MOST_FIELDS: usize = 32;

/// Maximum number of digits behind the point, and length of a currency.
const MOST_DIGITS: u8 = 9;
const LONGEST_CURRENCY: usize = 12;

/// Maximum number of currencies of one sum: clients may choose them.
const MOST_CURRENCIES: usize = 20;

/// Fields of a type that are amounts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AmountFields(Vec<AmountField>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct AmountField {
    /// From the top to the object that has it.
    path: Vec<Segment>,
    name: String,
    minor: u8,
    currency: Currency,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Field(String),
    Each,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Currency {
    Fixed(String),
    /// In this field beside the amount.
    Field(String),
}

impl AmountFields {
    /// Those that the schema of a type declares; none where it has none.
    #[must_use]
    pub fn of(schema: Option<SchemaFn>) -> Self {
        let mut found = Self::default();
        if let Some(schema) = schema {
            let mut generator = SchemaGenerator::default();
            let top = schema(&mut generator).to_value();
            let known = generator.take_definitions(false);
            found.look(&top, &known, &[], 0);
        }
        found
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn look(&mut self, schema: &Value, known: &Map<String, Value>, path: &[Segment], depth: usize) {
        if depth >= DEEPEST {
            return;
        }
        let named = schema.get("$ref").and_then(Value::as_str);
        let named = named.and_then(|it| known.get(it.rsplit('/').next()?));
        let any = ["anyOf", "oneOf", "allOf"].iter();
        let any = any.filter_map(|of| schema.get(of)?.as_array()).flatten();
        for same in named.into_iter().chain(any) {
            self.look(same, known, path, depth + 1);
        }
        let below = |segment| [path, &[segment]].concat();
        if let Some(items) = schema.get("items") {
            self.look(items, known, &below(Segment::Each), depth + 1);
        }
        let fields = schema.get("properties").and_then(Value::as_object);
        for (name, field) in fields.into_iter().flatten() {
            match field.get("x-amount").and_then(declared) {
                Some((minor, currency)) if self.0.len() < MOST_FIELDS => self.0.push(AmountField {
                    path: path.to_vec(),
                    name: name.clone(),
                    minor,
                    currency,
                }),
                Some(_) => {}
                None => {
                    let below = below(Segment::Field(name.clone()));
                    self.look(field, known, &below, depth + 1);
                }
            }
        }
    }

    /// Adds the amounts of a value. What is no whole number, or has no currency, counts as none.
    pub fn add(&self, value: &Value, sums: &mut AmountSums) {
        for field in &self.0 {
            let mut places = vec![value];
            for segment in &field.path {
                places = places
                    .into_iter()
                    .flat_map(|it| below(it, segment))
                    .collect();
            }
            for place in places {
                let amount = place.get(&field.name);
                let amount = amount
                    .and_then(|it| it.as_i64().map(i128::from).or(it.as_u64().map(i128::from)));
                let currency = match &field.currency {
                    Currency::Fixed(name) => Some(&**name),
                    Currency::Field(name) => place.get(name).and_then(Value::as_str),
                };
                if let (Some(amount), Some(currency)) = (amount, currency) {
                    sums.add(currency, amount, field.minor);
                }
            }
        }
    }
}

/// What an extension says; `None`: it is none.
fn declared(extension: &Value) -> Option<(u8, Currency)> {
    let minor = extension.get("minor").map_or(Some(0), Value::as_u64)?;
    let minor = u8::try_from(minor).ok().filter(|it| *it <= MOST_DIGITS)?;
    let text = |name| {
        extension
            .get(name)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let fixed = text("currency")
        .filter(|it| is_currency(it))
        .map(Currency::Fixed);
    Some((
        minor,
        fixed.or(text("currency_field").map(Currency::Field))?,
    ))
}

fn is_currency(text: &str) -> bool {
    (1..=LONGEST_CURRENCY).contains(&text.len())
        && text.bytes().all(|it| it.is_ascii_alphanumeric())
}

fn below<'a>(value: &'a Value, segment: &Segment) -> Vec<&'a Value> {
    match segment {
        Segment::Field(name) => value.get(name).into_iter().collect(),
        Segment::Each => value.as_array().into_iter().flatten().collect(),
    }
}

/// Sums of amounts, by currency: never across.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AmountSums(BTreeMap<String, (i128, u8)>);

impl AmountSums {
    /// Adds sums to these.
    pub fn extend(&mut self, more: &Self) {
        for (currency, (sum, minor)) in &more.0 {
            self.add(currency, *sum, *minor);
        }
    }

    fn add(&mut self, currency: &str, amount: i128, minor: u8) {
        let is_new = !self.0.contains_key(currency);
        if !is_currency(currency) || (is_new && self.0.len() >= MOST_CURRENCIES) {
            return;
        }
        let (sum, digits) = self.0.entry(currency.to_owned()).or_insert((0, minor));
        let with =
            |of: i128, from: u8, to: u8| of.saturating_mul(10_i128.pow(u32::from(to - from)));
        let most = minor.max(*digits);
        *sum = with(*sum, *digits, most).saturating_add(with(amount, minor, most));
        *digits = most;
    }

    /// Each currency with its sum, as a decimal number with as many digits behind the point as the amounts were declared with.
    pub fn iter(&self) -> impl Iterator<Item = (&str, String)> {
        let shown = |(sum, digits): (i128, u8)| {
            let (sign, sum) = (if sum < 0 { "-" } else { "" }, sum.unsigned_abs());
            let one = 10_u128.pow(u32::from(digits));
            match usize::from(digits) {
                0 => format!("{sign}{sum}"),
                width => format!("{sign}{}.{:0width$}", sum / one, sum % one),
            }
        };
        self.0
            .iter()
            .map(move |(currency, sum)| (&**currency, shown(*sum)))
    }
}

#[cfg(test)]
mod tests {
    use super::{AmountFields, AmountSums};
    use schemars::JsonSchema;
    use serde::Serialize;
    use serde_json::{Value, json};

    #[derive(Serialize, JsonSchema)]
    struct Order {
        #[schemars(extend("x-amount" = {"minor": 2, "currency": "EUR"}))]
        total_cents: Option<u64>,
        items: Vec<Item>,
        parent: Option<Box<Order>>,
        note: String,
    }

    #[derive(Serialize, JsonSchema)]
    struct Item {
        #[schemars(extend("x-amount" = {"minor": 3, "currency_field": "currency"}))]
        price: i64,
        currency: String,
    }

    fn sums(values: &[Value]) -> Vec<(String, String)> {
        let fields = AmountFields::of(Some(|generator| generator.subschema_for::<Order>()));
        let mut sums = AmountSums::default();
        values.iter().for_each(|it| fields.add(it, &mut sums));
        let all = sums
            .iter()
            .map(|(currency, sum)| (currency.to_owned(), sum));
        all.collect()
    }

    #[test]
    fn amounts_are_summed_by_currency_wherever_they_stand() {
        let first = json!({ "total_cents": 821_340, "note": "9", "items": [
            { "price": 1_500, "currency": "JOD" }, { "price": -20, "currency": "JOD" } ] });
        let second = json!({ "total_cents": 5, "items": [{ "price": 7, "currency": "EUR" }],
            "parent": { "total_cents": 100, "items": [] } });
        let found = sums(&[first, second]);
        let found: Vec<_> = found
            .iter()
            .map(|(currency, sum)| (&**currency, &**sum))
            .collect();
        // 8,213.40 + 0.05 + 0.007 + 1.00 with the most digits of all.
        assert_eq!(found, [("EUR", "8214.457"), ("JOD", "1.480")]);
    }

    #[test]
    fn what_is_no_amount_counts_as_none() {
        let odd = json!({ "total_cents": 1.5, "items": [
            { "price": "3", "currency": "EUR" }, { "price": 3 }, { "price": 3, "currency": "E R" } ] });
        assert_eq!(sums(&[odd, json!(null), json!({ "items": 3 })]), []);
        let many = (0..100).map(|n| json!({ "price": 1, "currency": format!("C{n}") }));
        let many = json!({ "items": many.collect::<Vec<_>>() });
        assert_eq!(sums(&[many]).len(), super::MOST_CURRENCIES);
        assert_eq!(AmountFields::of(None), AmountFields::default());
    }
}
