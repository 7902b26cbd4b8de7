//! Detection of changes by a page: the server sends an event, and the page then requests the new state.
//!
//! While the connection is lost the browser retries by itself. If that fails, or the server refuses one more stream,
//! the page polls instead, and later tries to listen again. A hidden page does not listen: browsers allow few
//! connections to one server.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use leptos::prelude::*;
use leptos::task::spawn_local;
use leptos::wasm_bindgen::JsCast as _;
use leptos::wasm_bindgen::closure::Closure;
use web_sys::EventSource;

/// Milliseconds between two polls while the server answers.
const EVERY: u64 = 2000;
/// The most milliseconds between two polls while the server does not answer.
const AT_MOST: u64 = 30_000;
/// Consecutive errors after which the page no longer relies on the browser's retries.
const ENOUGH: u32 = 3;
/// Polls after which a page tries to listen again.
const TRY_AGAIN: u32 = 10;

/// A request for the present state: whether it is final, or `None` without an answer.
pub(super) type Looking = Pin<Box<dyn Future<Output = Option<bool>>>>;

/// The subscription of a page.
struct ChangeListener {
    address: String,
    look: Rc<dyn Fn() -> Looking>,
    /// Consecutive failures: the connection is lost while it is not zero.
    failed: RwSignal<u32>,
    /// Consecutive errors of the stream.
    broken: Cell<u32>,
    /// Consecutive polls, while it polls instead of listening.
    asked: Cell<u32>,
    over: Cell<bool>,
    /// The delay between an event and the request, so that many events cause one request.
    rest: Duration,
    /// Whether a request is already scheduled.
    asks: Cell<bool>,
    ear: RefCell<Option<EventStream>>,
}

/// A stream and its callbacks.
struct EventStream {
    source: EventSource,
    _heard: [Closure<dyn FnMut()>; 3],
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.source.close();
    }
}

/// Requests the state after each change event at `address`, with a delay of `rest`, until the state is final.
pub(super) fn follow(address: String, rest: Duration, failed: RwSignal<u32>, look: Rc<dyn Fn() -> Looking>) {
    let listener = Rc::new(ChangeListener {
        address,
        look,
        failed,
        broken: Cell::new(0),
        asked: Cell::new(0),
        over: Cell::new(false),
        rest,
        asks: Cell::new(false),
        ear: RefCell::new(None),
    });
    listen(&listener);
    // The listener lives as long as the page.
    let _ = window_event_listener_untyped("visibilitychange", move |_| {
        if document().hidden() {
            listener.ear.take();
        } else if listener.ear.borrow().is_none() {
            listen(&listener);
        }
    });
}

fn listen(listener: &Rc<ChangeListener>) {
    if listener.over.get() {
        return;
    }
    let Ok(source) = EventSource::new(&listener.address) else { return ask_later(listener) };
    let (opened, told, erred) = (Rc::clone(listener), Rc::clone(listener), Rc::clone(listener));
    let callbacks = [
        Closure::<dyn FnMut()>::new(move || {
            opened.broken.set(0);
            opened.failed.set(0);
        }),
        Closure::new(move || {
            if !told.asks.replace(true) {
                let (asking, rest) = (Rc::clone(&told), told.rest);
                let question = move || {
                    asking.asks.set(false);
                    ask(&asking);
                };
                set_timeout(question, rest);
            }
        }),
        Closure::new(move || {
            erred.failed.update(|times| *times = times.saturating_add(1));
            erred.broken.set(erred.broken.get() + 1);
            // A running closure cannot be dropped: drop it after it returns.
            let erred = Rc::clone(&erred);
            set_timeout(move || deaf(&erred), Duration::ZERO);
        }),
    ];
    source.set_onopen(Some(callbacks[0].as_ref().unchecked_ref()));
    source.set_onmessage(Some(callbacks[1].as_ref().unchecked_ref()));
    source.set_onerror(Some(callbacks[2].as_ref().unchecked_ref()));
    listener.ear.replace(Some(EventStream { source, _heard: callbacks }));
}

/// Handles an error: starts polling if the browser does not retry or has retried too often.
fn deaf(listener: &Rc<ChangeListener>) {
    let closed = listener.ear.borrow().as_ref().is_none_or(|ear| ear.source.ready_state() == EventSource::CLOSED);
    if closed || listener.broken.get() >= ENOUGH {
        listener.ear.take();
        ask_later(listener);
    }
}

/// Requests the present state.
fn ask(listener: &Rc<ChangeListener>) {
    let listener = Rc::clone(listener);
    spawn_local(async move {
        if let Some(over) = (listener.look)().await {
            listener.failed.set(0);
            if over {
                listener.over.set(true);
                listener.ear.take();
            } else if listener.ear.borrow().is_none() {
                listener.asked.set(listener.asked.get() + 1);
                ask_later(&listener);
            }
        } else {
            listener.failed.update(|times| *times = times.saturating_add(1));
            ask_later(&listener);
        }
    });
}

/// Polls again after a while; a hidden page does not.
fn ask_later(listener: &Rc<ChangeListener>) {
    let wait = pause(listener.failed.get_untracked());
    let listener = Rc::clone(listener);
    set_timeout(
        move || {
            if document().hidden() || listener.over.get() {
                return;
            }
            let deaf = listener.ear.borrow().is_none();
            if deaf && listener.failed.get_untracked() == 0 && listener.asked.get() >= TRY_AGAIN {
                listener.asked.set(0);
                return listen(&listener);
            }
            ask(&listener);
        },
        wait,
    );
}

/// Returns the delay after so many consecutive failures.
fn pause(failed: u32) -> Duration {
    Duration::from_millis((EVERY << failed.min(4)).min(AT_MOST))
}

#[cfg(test)]
mod tests {
    use super::pause;

    #[test]
    fn a_page_waits_longer_while_nobody_answers_but_never_gives_up() {
        let waits: Vec<_> = [0, 1, 2, 3, 4, 100].map(|failed| pause(failed).as_millis()).into();
        assert_eq!(waits, [2000, 4000, 8000, 16_000, 30_000, 30_000]);
    }
}
