//! The ports of the process itself.

use crate::embedded::fixture;
use crate::suite::changes::new_task;
use counterstep_kernel::ports::Signal;
use futures::StreamExt;
use std::time::Duration;

#[tokio::test]
async fn every_listener_hears_a_signal_and_nobody_has_to() {
    let signals = fixture().await.ports.signals;
    signals.send(Signal::Changed(new_task()));
    let (mut one, mut two) = (signals.subscribe(), signals.subscribe());
    let signal = Signal::CancelRequested(new_task());
    signals.send(signal.clone());
    assert_eq!(
        (one.next().await, two.next().await),
        (Some(signal.clone()), Some(signal))
    );
}

#[tokio::test]
async fn a_cancel_is_heard_by_those_who_listen_to_its_task() {
    let signals = fixture().await.ports.signals;
    let [task, other] = [new_task(), new_task()];
    let (mut one, mut two) = (signals.cancels_of(task), signals.cancels_of(task));
    let mut stranger = signals.cancels_of(other);
    signals.send(Signal::Changed(task));
    assert!(futures::poll!(one.next()).is_pending());
    // Sent before anybody waits for it.
    signals.send(Signal::CancelRequested(task));
    assert_eq!((one.next().await, two.next().await), (Some(()), Some(())));
    assert!(futures::poll!(stranger.next()).is_pending());
    drop(one);
    signals.send(Signal::CancelRequested(task));
    assert_eq!(two.next().await, Some(()));
}

#[tokio::test]
async fn a_listener_that_fell_behind_hears_the_later_ones() {
    let signals = fixture().await.ports.signals;
    let mut late = signals.subscribe();
    for _ in 0..5000 {
        signals.send(Signal::Changed(new_task()));
    }
    let last = Signal::Changed(new_task());
    signals.send(last.clone());
    while late.next().await.expect("more signals") != last {}
}

#[tokio::test(start_paused = true)]
async fn the_clock_follows_tokios_time() {
    let clock = counterstep_adapters::system::SystemClock::new();
    use counterstep_kernel::ports::Clock;
    clock.sleep(Duration::from_secs(3600)).await;
    assert!(clock.monotonic() >= Duration::from_secs(3600));
    assert!(clock.unix_millis() > 1_700_000_000_000);
}

#[tokio::test]
async fn chance_does_not_repeat_itself() {
    let random = fixture().await.ports.random;
    assert_ne!(random.bits(), random.bits());
}
