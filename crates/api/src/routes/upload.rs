//! The bytes of an upload as they arrive: which of them pass from the connection to the form that is read from them, and why no more
//! do. Must not know what they mean.

use crate::app_state::Api;
use crate::body::Arriving;
use crate::form::{Form, Limits, Sent};
use crate::problem::too_large;
use crate::shares::Share;
use actix_web::web;
use counterstep_contracts::ProblemCode;
use counterstep_operations::{Caller, Refused, unavailable};
use futures::future::{Either, select};
use std::pin::pin;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

/// Maximum number of chunks on their way from the connection to the form. A chunk is at most 128 KiB, the
/// server's read buffer, so with the parser's own one an upload holds well under a megabyte.
const CHUNKS: usize = 4;

/// Receives a form of this boundary: passes its body on to `taking`, which is a task of its own: when the client goes away, this
/// future is dropped, the channel closes, and that task cleans up. The body is with its length, where that is announced.
pub(super) async fn receive<T, F>(
    api: &Api,
    caller: &Caller,
    payload: web::Payload,
    announced: Option<u64>,
    boundary: &str,
    taking: impl FnOnce(Form) -> F,
) -> Result<T, Refused>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Refused>> + Send + 'static,
{
    let limit = api.settings.max_form_bytes;
    if announced.is_some_and(|length| length > limit) {
        return Err(form_too_large(limit));
    }
    let share = share(api, caller)?;
    let (to, from) = mpsc::channel(CHUNKS);
    let taking = taking(Form::new(boundary, from, Limits::of(&api.settings)));
    // Until it has cleaned up, where the client goes away.
    let taking = async move {
        let taken = taking.await;
        drop(share);
        taken
    };
    let taking = api.finish("taking a form", taking);
    let pump = pump(Arriving::new(api, payload), to, limit);
    // The form comes first: it starts to be read when it is polled. Once there is an answer, this
    // does not wait for the rest of a body that may never come.
    match select(pin!(taking), pin!(pump)).await {
        Either::Left((taken, _)) => taken,
        // A closed channel looks like a client that left; who closed it knows better.
        Either::Right((late, taking)) => taking.await.map_err(|refused| late.unwrap_or(refused)),
    }
}

/// A place among the caller's uploads.
fn share(api: &Api, caller: &Caller) -> Result<Share, Refused> {
    api.uploads.take(caller).ok_or_else(|| {
        let detail = format!(
            "the caller sends {} forms at this moment and may send no more: send this one when another has its answer",
            api.uploads.most
        );
        Refused::new(ProblemCode::TooManyRequests, detail).retry_after(1)
    })
}

/// Passes the body on. Returns a refusal that it could not send.
async fn pump(mut body: Arriving, to: mpsc::Sender<Sent>, limit: u64) -> Option<Refused> {
    let mut total = 0_u64;
    let (mut for_client, mut for_store) = (Duration::ZERO, Duration::ZERO);
    loop {
        let began = Instant::now();
        let next = body.next().await;
        for_client += began.elapsed();
        let sent = match next {
            Ok(Some(bytes)) => {
                total += bytes.len() as u64;
                if total > limit {
                    Sent::Broken(form_too_large(limit))
                } else {
                    Sent::Bytes(bytes)
                }
            }
            Ok(None) => Sent::End,
            Err(refused) => Sent::Broken(refused),
        };
        let is_last = !matches!(sent, Sent::Bytes(_));
        let began = Instant::now();
        let taken = timeout(body.left(), to.send(sent)).await;
        for_store += began.elapsed();
        match taken {
            Ok(Ok(())) if !is_last => {}
            // There is an answer already, and nothing takes more.
            Ok(_) => return None,
            // Its place in the line is taken by bytes that a store does not take: a refusal cannot
            // get past them, and a closed channel says it as well.
            Err(_) if for_store > for_client => {
                return Some(unavailable(
                    "the object store",
                    &format_args!("it took {for_store:?} of an upload's time"),
                ));
            }
            Err(_) => return Some(body.too_long()),
        }
    }
}

fn form_too_large(limit: u64) -> Refused {
    too_large(format!(
        "a form may have {limit} bytes in all: send fewer or smaller files"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::FromRequest;
    use actix_web::error::PayloadError;
    use actix_web::test::TestRequest;
    use futures::StreamExt;

    /// What is refused when a body of ten bytes comes after this time, and is to pass a channel without a
    /// reader.
    async fn refused(after: Duration) -> Refused {
        let late = futures::stream::once(async move {
            tokio::time::sleep(after).await;
            Ok::<_, PayloadError>(web::Bytes::from_static(b"xxxxxxxxxx"))
        });
        let mut payload = actix_web::dev::Payload::Stream {
            payload: late.boxed_local(),
        };
        let request = TestRequest::default().to_http_request();
        let payload = web::Payload::from_request(&request, &mut payload)
            .await
            .expect("a payload");
        let (to, _kept) = mpsc::channel(1);
        to.send(Sent::Bytes("before".into()))
            .await
            .expect("room for one");
        let body = Arriving::within(
            payload,
            Duration::from_secs(60),
            Duration::from_millis(1_000),
        );
        pump(body, to, 100)
            .await
            .expect("a refusal that does not get past the bytes")
    }

    #[actix_web::test]
    async fn a_store_that_takes_nothing_is_not_blamed_on_the_client() {
        assert_eq!(
            refused(Duration::ZERO).await.code(),
            ProblemCode::Unavailable
        );
    }

    #[actix_web::test]
    async fn a_client_that_took_most_of_the_time_is_told_so() {
        assert_eq!(
            refused(Duration::from_millis(800)).await.code(),
            ProblemCode::SlowBody
        );
    }
}
