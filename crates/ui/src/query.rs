//! Addresses and their queries. Must not know which parameters a page takes.

pub(crate) use counterstep_contracts::commands::segment;
use std::fmt::Display;

/// An address with parameters that are added one by one.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    path: String,
    query: String,
}

impl Address {
    pub(crate) fn new(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            query: String::new(),
        }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Display) -> Self {
        let mut query = url::form_urlencoded::Serializer::new(self.query);
        self.query = query.append_pair(name, &value.to_string()).finish();
        self
    }

    /// Only where there is a value.
    pub(crate) fn with_some(self, name: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    pub(crate) fn all(self, name: &str, values: impl IntoIterator<Item = impl Display>) -> Self {
        values
            .into_iter()
            .fold(self, |address, value| address.with(name, value))
    }

    pub(crate) fn text(self) -> String {
        match self.query.is_empty() {
            true => self.path,
            false => format!("{}?{}", self.path, self.query),
        }
    }
}

/// An address to go back to, below that of the pages: of these pages, whatever a form has sent.
pub(crate) fn place(of: Option<&str>) -> &str {
    let is_inner = |it: &&str| it.starts_with('/') && !it.starts_with("//") && !it.contains('\\');
    of.filter(is_inner).unwrap_or("/")
}

/// The parameters of a query, or the fields of a form.
#[derive(Debug, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(crate) fn of(text: &str) -> Self {
        let all = url::form_urlencoded::parse(text.as_bytes());
        Self(all.into_owned().collect())
    }

    pub(crate) const fn of_pairs(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The first of this name, as it was sent.
    pub(crate) fn raw(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name)?;
        Some(&found.1)
    }

    /// The first of this name; what is empty was left out.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self
            .0
            .iter()
            .find(|(key, value)| key == name && !value.trim().is_empty())?;
        Some(found.1.trim())
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let of_name = self.0.iter().filter(move |(key, _)| key == name);
        of_name
            .map(|(_, value)| value.trim())
            .filter(|value| !value.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_form_leads_back_to_is_of_these_pages_alone() {
        for (next, to) in [
            (Some("/tasks?type=a"), "/tasks?type=a"),
            (Some("//evil.example"), "/"),
            (Some("/\\evil.example"), "/"),
            (Some("https://evil.example"), "/"),
            (None, "/"),
        ] {
            assert_eq!(place(next), to);
        }
    }

    #[test]
    fn what_stands_in_a_query_or_a_segment_is_encoded() {
        let address = Address::new("/tasks")
            .with("label", "a=b&c")
            .with_some("x", None::<u8>);
        assert_eq!(address.text(), "/tasks?label=a%3Db%26c");
        assert_eq!(Address::new("/tasks").text(), "/tasks");
        assert_eq!(segment("a/b ü"), "a%2Fb%20%C3%BC");
        let fields = Fields::of("a=1&b=+&a=2");
        assert_eq!(fields.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(fields.get("b"), None);
    }
}
