//! What the answer of a service means for the next attempt. Pure.

use crate::builtin::Call;
use crate::error::{StepError, StepResult};
use crate::ports::ServiceAnswer;
use counterstep_contracts::cause::Origin;
use serde_json::Value;
use std::time::Duration;

/// Maximum characters of a body that are repeated in an error.
const EXCERPT: usize = 200;

/// Maximum delay that a service can ask for.
const LONGEST_PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// The answer as it is stored, or what its status means.
///
/// | status | |
/// |---|---|
/// | 2xx, and what the call accepts | success; a body that cannot be read is permanent |
/// | 408, 409, 425, 429, 5xx, and what the call retries, with `Retry-After` | rate limited, no sooner than that |
/// | 408, 425, 429, 5xx, and what the call retries, without it | transient |
/// | anything else, redirects too | permanent |
pub(super) fn read(call: &Call, answer: &ServiceAnswer) -> StepResult<Value> {
    let status = answer.status;
    if (200..300).contains(&status) || call.accepted.contains(&status) {
        return success(call, answer);
    }
    // 409 alone is a conflict as often as a matter of time: with a `Retry-After` the service has
    // said which.
    let asks_for_time =
        matches!(status, 408 | 409 | 425 | 429 | 500..=599) || call.retried.contains(&status);
    let may_pass = asks_for_time && (status != 409 || call.retried.contains(&409));
    let said = said(call, answer);
    let error = match answer.retry_after {
        Some(after) if asks_for_time => StepError::rate_limited(after.min(LONGEST_PATIENCE), said),
        _ if may_pass => StepError::transient(said),
        _ => StepError::permanent(said),
    };
    Err(error.about(origin(call).answered(status, &answer.body)))
}

/// The call as data.
pub(super) fn origin(call: &Call) -> Origin {
    Origin::call(call.service, call.method.as_str())
}

fn success(call: &Call, answer: &ServiceAnswer) -> StepResult<Value> {
    // Its body is no refusal, and has no code.
    let about = |error: StepError| error.about(origin(call).answered(answer.status, b""));
    // A call that ignores the answer accepts one of any length, and as the only one what is no JSON.
    if answer.cut && (call.read)(b"?").is_err() {
        return Err(about(StepError::permanent(format_args!(
            "{} is longer than {} bytes, which is the limit of this call",
            said(call, answer),
            call.longest_answer
        ))));
    }
    (call.read)(&answer.body).map_err(|error| {
        about(StepError::permanent(format_args!(
            "{} cannot be read: {error}",
            said(call, answer)
        )))
    })
}

/// Which call it was, for people.
pub(super) fn name(call: &Call) -> String {
    format!(
        "{} {} of the service `{}`",
        call.method.as_str(),
        call.path,
        call.service
    )
}

fn said(call: &Call, answer: &ServiceAnswer) -> String {
    let text = String::from_utf8_lossy(&answer.body);
    let mut excerpt: String = text.trim().chars().take(EXCERPT).collect();
    if excerpt.len() < text.trim().len() {
        excerpt.push('…');
    }
    let (name, status) = (name(call), answer.status);
    if excerpt.is_empty() {
        return format!("{name}: the answer {status} without a body");
    }
    // Escaped by the error, as every text of a service is: quotation marks stay as they are.
    format!("{name}: the answer {status} `{excerpt}`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::HttpCall;
    use crate::error::ErrorClass;

    fn answered(status: u16, after: Option<u64>, call: HttpCall<u32>) -> Result<Value, ErrorClass> {
        let body = bytes::Bytes::from_static(b"7");
        let answer = ServiceAnswer {
            status,
            retry_after: after.map(Duration::from_secs),
            body,
            cut: false,
        };
        read(&call.0, &answer).map_err(|error| error.class)
    }

    fn plain() -> HttpCall<u32> {
        HttpCall::post("bank", "/charges")
    }

    #[test]
    fn every_status_has_its_class_with_and_without_retry_after() {
        for status in 100..600 {
            let limited = Err(ErrorClass::RateLimited(Duration::from_secs(9)));
            let (without, with) = match status {
                200..=299 => (Ok(7.into()), Ok(7.into())),
                408 | 425 | 429 | 500..=599 => (Err(ErrorClass::Transient), limited),
                409 => (Err(ErrorClass::Permanent), limited),
                _ => (Err(ErrorClass::Permanent), Err(ErrorClass::Permanent)),
            };
            assert_eq!(answered(status, None, plain()), without, "{status}");
            assert_eq!(
                answered(status, Some(9), plain()),
                with,
                "{status} with Retry-After"
            );
        }
    }

    #[test]
    fn an_error_keeps_its_call_as_data() {
        let refused = |status, body: &'static [u8]| {
            let answer = ServiceAnswer {
                status,
                retry_after: None,
                body: body.into(),
                cut: false,
            };
            let origin = read(&plain().0, &answer).unwrap_err().origin;
            *origin.expect("an origin")
        };
        let declined = refused(402, br#"{"type":"about:blank","code":"declined"}"#);
        assert_eq!(
            declined,
            Origin {
                service: Some("bank".to_owned()),
                method: Some("POST".to_owned()),
                status: Some(402),
                code: Some("declined".to_owned()),
                place: None,
            }
        );
        assert_eq!(
            (refused(503, b"").status, refused(503, b"").code),
            (Some(503), None)
        );
        let unread = refused(200, br#"{"code":"kim"}"#);
        assert_eq!(
            (unread.status, unread.code),
            (Some(200), None),
            "no refusal"
        );
    }

    #[test]
    fn a_call_may_know_its_service_better() {
        assert_eq!(answered(404, None, plain().accepting(404)), Ok(7.into()));
        assert_eq!(
            answered(409, None, plain().retrying(409)),
            Err(ErrorClass::Transient)
        );
        assert_eq!(
            answered(423, None, plain().retrying(423)),
            Err(ErrorClass::Transient)
        );
    }

    #[test]
    fn nobody_is_left_alone_for_years_on_their_word() {
        let class = answered(503, Some(u64::MAX), plain()).unwrap_err();
        assert_eq!(class, ErrorClass::RateLimited(LONGEST_PATIENCE));
    }

    #[test]
    fn an_error_repeats_a_bounded_and_escaped_part_of_the_body() {
        let body = format!("line\u{1b}[31m\n{}", "x".repeat(5000)).into();
        let answer = ServiceAnswer {
            status: 422,
            retry_after: None,
            body,
            cut: true,
        };
        let message = read(&plain().0, &answer).unwrap_err().message;
        assert!(message.starts_with(
            "POST /charges of the service `bank`: the answer 422 `line\\u{1b}[31m\\nxxx"
        ));
        assert!(message.len() < 300 && message.ends_with("…`"), "{message}");
    }

    #[test]
    fn an_error_repeats_quotation_marks_as_they_are() {
        let body = serde_json::json!({ "why": "no \"money\"" });
        let message = read(&plain().0, &ServiceAnswer::json(402, &body))
            .unwrap_err()
            .message;
        let end = r#"the answer 402 `{"why":"no \"money\""}`"#;
        assert!(message.ends_with(end), "{message}");
    }

    #[test]
    fn an_answer_that_was_cut_is_too_long_unless_it_is_ignored() {
        let cut = |body: &'static [u8]| ServiceAnswer {
            status: 200,
            retry_after: None,
            body: body.into(),
            cut: true,
        };
        // An answer without a body is one of these too.
        let call = HttpCall::<Option<Vec<u32>>>::post("bank", "/charges").0;
        let error = read(&call, &cut(b"[1, 2")).unwrap_err();
        let limit = "longer than 1048576 bytes, which is the limit of this call";
        assert!(error.message.ends_with(limit), "{error}");
        let ignored = HttpCall::<()>::post("bank", "/charges").0;
        assert_eq!(read(&ignored, &cut(b"[1, 2")).unwrap(), Value::Null);
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_permanent_though_the_status_is_fine() {
        for (body, cut, said) in [
            (&b"<html>"[..], false, "cannot be read"),
            (b"7", true, "longer than 1048576 bytes"),
        ] {
            let answer = ServiceAnswer {
                status: 200,
                retry_after: None,
                body: body.into(),
                cut,
            };
            let error = read(&plain().0, &answer).unwrap_err();
            assert!(
                error.class == ErrorClass::Permanent && error.message.contains(said),
                "{error}"
            );
        }
    }
}
