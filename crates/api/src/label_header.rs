//! The header `Counterstep-Label: order=4711`: several headers, or several labels in one with commas
//! between them. A value may stand in quotes. Must not judge a label: `Labels` does.

use actix_web::HttpRequest;
use counterstep_contracts::{LabelError, Labels, ProblemCode};
use counterstep_operations::Refused;

/// As it is written in problem documents.
const HEADER: &str = "Counterstep-Label";

/// The labels that a request comes with.
pub(crate) fn labels(request: &HttpRequest) -> Result<Labels, Refused> {
    let mut labels = Labels::new();
    for header in request.headers().get_all("counterstep-label") {
        // A header is bytes; text beyond ASCII comes as UTF-8.
        let text = std::str::from_utf8(header.as_bytes()).map_err(|_| malformed())?;
        read(text, &mut labels)?;
    }
    Ok(labels)
}

fn refused(error: &LabelError) -> Refused {
    Refused::new(ProblemCode::InvalidLabel, error.to_string()).at(HEADER)
}

fn malformed() -> Refused {
    let detail = "invalid Counterstep-Label: expected `name=value` in UTF-8, several with commas between them; a value \
                  with a comma, a quote or a blank at an end stands in quotes, with \\ before each \" and \\ in it";
    Refused::new(ProblemCode::InvalidLabel, detail).at(HEADER)
}

/// Reads the labels of one header. An empty place between two commas is none, as in any list of HTTP.
fn read(text: &str, labels: &mut Labels) -> Result<(), Refused> {
    let mut rest = text.trim_start_matches([' ', '\t', ',']);
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=').ok_or_else(malformed)?;
        let (value, after) = if let Some(quoted) = after.strip_prefix('"') {
            let (value, after) = unquoted(quoted).ok_or_else(malformed)?;
            let after = after.trim_start_matches([' ', '\t']);
            (value, after)
        } else {
            let end = after.find(',').unwrap_or(after.len());
            let value = after[..end].trim_matches([' ', '\t']);
            (value.to_owned(), &after[end..])
        };
        if !after.is_empty() && !after.starts_with(',') {
            return Err(malformed());
        }
        labels.add(name, &value).map_err(|error| refused(&error))?;
        rest = after.trim_start_matches([' ', '\t', ',']);
    }
    Ok(())
}

/// The text up to the closing quote, and what comes behind it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut signs = text.char_indices();
    while let Some((at, sign)) = signs.next() {
        match sign {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(
                signs
                    .next()
                    .map(|(_, sign)| sign)
                    .filter(|it| matches!(it, '"' | '\\'))?,
            ),
            sign => value.push(sign),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;

    fn of(headers: &[&str]) -> Result<Vec<(String, String)>, ()> {
        let mut request = TestRequest::default();
        for header in headers {
            request = request.append_header(("counterstep-label", *header));
        }
        let labels = labels(&request.to_http_request()).map_err(drop)?;
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Ok(labels.iter().map(owned).collect())
    }

    fn made(expected: &[(&str, &str)]) -> Result<Vec<(String, String)>, ()> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Ok(expected.iter().map(owned).collect())
    }

    #[test]
    fn labels_come_in_several_headers_or_in_one() {
        let two = made(&[("customer", "7"), ("order", "4711")]);
        assert_eq!(of(&["order=4711", "customer=7"]), two);
        assert_eq!(of(&["order=4711,customer=7"]), two);
        assert_eq!(of(&[" , order=4711 ,\tcustomer=7,, "]), two);
        assert_eq!(of(&["order=\"4711\" , customer=7"]), two);
        assert_eq!(of(&[]), made(&[]));
    }

    #[test]
    fn a_value_may_have_any_sign_that_a_label_may_have() {
        assert_eq!(of(&["a=b=c d"]), made(&[("a", "b=c d")]));
        assert_eq!(
            of(&[r#"a="x, \"y\" \\ ", b=Größe"#]),
            made(&[("a", "x, \"y\" \\ "), ("b", "Größe")])
        );
    }

    #[test]
    fn what_is_no_label_is_refused() {
        for header in [
            "order",
            "=4711",
            "order=",
            "Order=1",
            "order =1",
            "order=1,order=2",
            "order=\"1",
            "order=\"1\"x",
            r#"order="\n""#,
            "order=\"\"",
            "order=\u{202e}x",
        ] {
            assert!(of(&[header]).is_err(), "{header}");
        }
    }
}
