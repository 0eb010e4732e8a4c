//! Pages that keep themselves up to date: streams of server-sent events, each a part of a page as HTML. They
//! follow the streams of the interface, and show what its other routes answer then.

use crate::failed::{Answer, Cause, Failed};
use crate::page_request::PageRequest;
use crate::pages::search::Filter;
use crate::pages::tasks::{self, Found};
use crate::pages::{
    bulk_operation, overview, parked, part, queues, schedules, task, types, workers,
};
use crate::query::{Fields, segment};
use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::Payload;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use actix_web::http::{Method, StatusCode};
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use futures::Stream;
use futures::future::LocalBoxFuture;
use futures::stream;
use maud::Markup;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Changes within this time are sent together.
const TOGETHER: Duration = Duration::from_millis(150);

/// Minimum time between two updates of the same part.
const OF_TASK: Duration = Duration::from_millis(400);
const OF_LIST: Duration = Duration::from_secs(1);
/// Of parts whose changes are in no stream, and that take several calls or long ones.
const BY_TIME: Duration = Duration::from_secs(5);

/// How often parts that change with time alone are sent.
const UNDER_WAY: Duration = Duration::from_secs(3);

/// Interval of comments: proxies keep the connection open, and a browser that is gone is noticed.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// A part of a page as it is now.
pub(crate) struct Part {
    pub(crate) html: Markup,
    /// The stream of the interface with its changes: its address, and the event after which it goes on. `None`: there is none, and it
    /// is shown anew by time.
    changes: Option<(String, Option<u64>)>,
    /// It changes by time alone.
    is_under_way: bool,
    /// It changes no more.
    has_ended: bool,
    least: Duration,
}

pub(crate) async fn task(request: HttpRequest) -> Answer {
    let id = part(&request, "id").to_owned();
    serve(&request, move |visit| {
        let id = id.clone();
        Box::pin(async move {
            let found = task::Found::of(&visit, &id).await?;
            let changes = format!("/api/tasks/{}/events", segment(&id));
            Ok(Part {
                html: task::live_part(&visit, &found),
                changes: Some((changes, Some(found.seen()))),
                is_under_way: found.is_under_way(),
                has_ended: found.task.status.is_terminal(),
                least: OF_TASK,
            })
        })
    })
    .await
}

pub(crate) async fn tasks(request: HttpRequest) -> Answer {
    let filter = Filter::of(&Fields::of(request.query_string()));
    serve(&request, move |visit| {
        let filter = filter.clone();
        Box::pin(async move {
            let found = Found::of(&visit, &filter).await?;
            Ok(Part {
                html: tasks::list(&visit, &filter, &found),
                changes: Some((filter.changes(), None)),
                is_under_way: false,
                has_ended: false,
                least: OF_LIST,
            })
        })
    })
    .await
}

pub(crate) async fn bulk(request: HttpRequest) -> Answer {
    serve(&request, move |visit| {
        Box::pin(async move {
            let (html, has_ended) = bulk_operation::shown(&visit).await?;
            Ok(Part {
                html,
                changes: None,
                is_under_way: true,
                has_ended,
                least: OF_LIST,
            })
        })
    })
    .await
}

pub(crate) async fn overview(request: HttpRequest) -> Answer {
    by_time(&request, overview::live_part).await
}

pub(crate) async fn parked(request: HttpRequest) -> Answer {
    by_time(&request, parked::live_part).await
}

pub(crate) async fn types(request: HttpRequest) -> Answer {
    by_time(&request, types::live_part).await
}

pub(crate) async fn schedules(request: HttpRequest) -> Answer {
    by_time(&request, schedules::live_part).await
}

pub(crate) async fn queues(request: HttpRequest) -> Answer {
    by_time(&request, queues::live_part).await
}

pub(crate) async fn workers(request: HttpRequest) -> Answer {
    by_time(&request, workers::live_part).await
}

/// A part of a page that has no stream to follow, and no end.
async fn by_time<F>(request: &HttpRequest, show: F) -> Answer
where
    F: AsyncFn(&PageRequest) -> Result<Markup, Failed> + Copy + 'static,
{
    serve(request, move |visit| {
        Box::pin(async move {
            Ok(Part {
                html: show(&visit).await?,
                changes: None,
                is_under_way: true,
                has_ended: false,
                least: BY_TIME,
            })
        })
    })
    .await
}

type Show = Box<dyn Fn(PageRequest) -> LocalBoxFuture<'static, Result<Part, Failed>>>;

async fn serve(
    request: &HttpRequest,
    show: impl Fn(PageRequest) -> LocalBoxFuture<'static, Result<Part, Failed>> + 'static,
) -> Answer {
    let visit = PageRequest::of(request).await?;
    let mut answer = HttpResponse::Ok();
    answer
        .insert_header((CONTENT_TYPE, "text/event-stream"))
        .insert_header((CACHE_CONTROL, "no-store"))
        // For proxies that collect answers.
        .insert_header(("x-accel-buffering", "no"));
    if request.method() == Method::HEAD {
        return Ok(answer.finish());
    }
    let live = Live {
        visit,
        show: Box::new(show),
        changes: None,
        state: State::Begin,
    };
    Ok(answer.streaming(live.frames()))
}

/// A stream to one browser.
struct Live {
    visit: PageRequest,
    show: Show,
    changes: Option<Pin<Box<BoxBody>>>,
    state: State,
}

enum State {
    Begin,
    /// A part was sent.
    Shown {
        at: Instant,
        is_under_way: bool,
        least: Duration,
    },
    Ended,
}

/// What a wait for changes has come to.
enum Heard {
    Change,
    Nothing,
    /// There will be none.
    End,
}

impl Live {
    fn frames(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        stream::unfold(self, |mut live| async move {
            let frame = live.next().await?;
            Some((Ok(frame), live))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        match self.state {
            State::Begin => Some(self.shown().await),
            State::Shown {
                at,
                is_under_way,
                least,
            } => {
                let until = at
                    + if is_under_way {
                        UNDER_WAY.max(least)
                    } else {
                        HEARTBEAT
                    };
                let heard = match &mut self.changes {
                    Some(changes) => heard(changes, until).await,
                    None => {
                        sleep_until(until).await;
                        Heard::Nothing
                    }
                };
                match heard {
                    Heard::Change => {
                        sleep_until((Instant::now() + TOGETHER).max(at + least)).await;
                        Some(self.shown().await)
                    }
                    Heard::End => {
                        self.changes = None;
                        let (last, has_ended) = self.part().await;
                        // Else the server stops, or the connection was cut: the browser comes again.
                        let end = if has_ended {
                            event("end", "")
                        } else {
                            Bytes::new()
                        };
                        self.state = State::Ended;
                        Some([&last[..], &end].concat().into())
                    }
                    Heard::Nothing if is_under_way => Some(self.shown().await),
                    Heard::Nothing => {
                        self.state = State::Shown {
                            at: Instant::now(),
                            is_under_way,
                            least,
                        };
                        Some(Bytes::from_static(b":\n\n"))
                    }
                }
            }
            State::Ended => None,
        }
    }

    /// The part as it is now, and what it follows.
    async fn shown(&mut self) -> Bytes {
        let is_first = matches!(self.state, State::Begin);
        let (frame, has_ended) = self.part().await;
        let retry: &[u8] = if is_first { b"retry: 2000\n\n" } else { b"" };
        let follows = self.changes.is_some() || !matches!(self.state, State::Shown { .. });
        if has_ended && !follows {
            self.state = State::Ended;
            return [retry, &frame, &event("end", "")].concat().into();
        }
        [retry, &frame].concat().into()
    }

    /// The part as it is now, and whether it changes no more.
    async fn part(&mut self) -> (Bytes, bool) {
        let part = match (self.show)(self.visit.clone()).await {
            Ok(part) => part,
            Err(failed) => {
                tracing::debug!(%failed, "a live page ends");
                self.state = State::Ended;
                let name = match failed.cause {
                    Cause::SignIn(_) => "signed-out",
                    Cause::Refused(_) => "refused",
                };
                return (event(name, &failed.to_string()), false);
            }
        };
        let mut is_under_way = part.is_under_way;
        if let Some((path, after)) = part
            .changes
            .filter(|_| self.changes.is_none() && !part.has_ended)
        {
            match self.follow(&path, after).await {
                Ok(Some(changes)) => self.changes = Some(changes),
                // It has ended since it was read.
                Ok(None) => is_under_way = true,
                // Time has it shown anew, until there is one.
                Err(failed) => {
                    tracing::debug!(%failed, "a live page has no stream to follow");
                    is_under_way = true;
                }
            }
        }
        self.state = State::Shown {
            at: Instant::now(),
            is_under_way,
            least: part.least,
        };
        (event("part", &part.html.into_string()), part.has_ended)
    }

    /// A stream of the interface; `None`: there is nothing to come.
    async fn follow(
        &self,
        path: &str,
        after: Option<u64>,
    ) -> Result<Option<Pin<Box<BoxBody>>>, Failed> {
        let mut headers = self.visit.headers();
        if let Some(after) = after {
            headers.insert(
                HeaderName::from_static("last-event-id"),
                HeaderValue::from(after),
            );
        }
        let answer = self
            .visit
            .call(Method::GET, path, headers, Payload::None)
            .await?;
        if answer.status() == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        Ok(Some(Box::pin(answer.into_body())))
    }
}

/// Waits for an event of a stream, until then.
async fn heard(changes: &mut Pin<Box<BoxBody>>, until: Instant) -> Heard {
    loop {
        let chunk = poll_fn(|context| changes.as_mut().poll_next(context));
        match timeout_at(until, chunk).await {
            Err(_) => return Heard::Nothing,
            Ok(None | Some(Err(_))) => return Heard::End,
            // Comments, places and the time to come again change nothing.
            Ok(Some(Ok(chunk))) if has_event(&chunk) => {
                return if drain(changes) {
                    Heard::Change
                } else {
                    Heard::End
                };
            }
            Ok(Some(Ok(_))) => {}
        }
    }
}

/// Drops what is there already: one look at the interface has all of it. Whether more may come.
fn drain(changes: &mut Pin<Box<BoxBody>>) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match changes.as_mut().poll_next(&mut context) {
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(None | Some(Err(_))) => return false,
            Poll::Pending => return true,
        }
    }
}

fn has_event(chunk: &[u8]) -> bool {
    chunk
        .split(|byte| *byte == b'\n')
        .any(|line| line.starts_with(b"data:"))
}

/// An event, a line of it for each of the text.
fn event(name: &str, text: &str) -> Bytes {
    let mut frame = format!("event: {name}\n");
    for line in text.split(['\n', '\r']) {
        frame.push_str("data: ");
        frame.push_str(line);
        frame.push('\n');
    }
    frame.push('\n');
    frame.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{Api, ApiRequest, SignIn, Ui};
    use actix_web::test::TestRequest;
    use actix_web::web::Data;
    use counterstep_contracts::installation::Installation;
    use std::cell::Cell;
    use std::rc::Rc;

    /// An interface that answers each call so.
    struct Answers(StatusCode);

    impl Api for Answers {
        fn call(&self, _: ApiRequest) -> LocalBoxFuture<'static, HttpResponse> {
            let status = self.0;
            Box::pin(async move { HttpResponse::new(status) })
        }
    }

    /// A part whose stream is answered so; from the second time on it has ended.
    fn live(status: StatusCode) -> Live {
        let ui = Data::new(Ui {
            api: Rc::new(Answers(status)),
            sign_in: SignIn::None,
            address: |_| String::new(),
            operations: Vec::new(),
            installation: Installation::default(),
        });
        let request = TestRequest::default().app_data(ui).to_http_request();
        let times = Rc::new(Cell::new(0));
        let show = move |_| -> LocalBoxFuture<'static, Result<Part, Failed>> {
            times.set(times.get() + 1);
            let has_ended = times.get() > 1;
            Box::pin(async move {
                Ok(Part {
                    html: maud::html! {},
                    changes: Some(("/api/events".to_owned(), None)),
                    is_under_way: false,
                    has_ended,
                    least: OF_LIST,
                })
            })
        };
        Live {
            visit: PageRequest::open(&request),
            show: Box::new(show),
            changes: None,
            state: State::Begin,
        }
    }

    #[actix_web::test]
    async fn a_part_without_a_stream_is_shown_anew_by_time() {
        // A refusal, and nothing to come: the task has ended since it was read.
        for status in [StatusCode::TOO_MANY_REQUESTS, StatusCode::NO_CONTENT] {
            let mut live = live(status);
            let first = live.next().await.expect("a part");
            assert!(first.starts_with(b"retry: 2000"), "{first:?}");
            let State::Shown { is_under_way, .. } = live.state else {
                panic!("it has ended");
            };
            assert!(is_under_way, "{status}");
            let last = live.shown().await;
            assert!(last.ends_with(b"event: end\ndata: \n\n"), "{last:?}");
            assert!(live.next().await.is_none());
        }
    }

    #[actix_web::test]
    async fn the_first_part_has_the_time_to_come_again_also_where_it_is_the_last() {
        let mut live = live(StatusCode::NO_CONTENT);
        live.part().await;
        live.state = State::Begin;
        let only = live.next().await.expect("a part");
        assert!(only.starts_with(b"retry: 2000\n\nevent: part"), "{only:?}");
        assert!(live.next().await.is_none());
    }
}
