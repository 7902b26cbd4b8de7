//! How a page learns that something has changed: the server says so (server-sent events), and the page then asks what.
//!
//! While the connection is away the browser tries again by itself; when that does not help, or the server will not have one
//! more stream, the page asks now and then instead, and later tries to listen again. A page that nobody sees listens to
//! nothing: browsers have few connections to one server.

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

/// Milliseconds between two questions while all is well.
const EVERY: u64 = 2000;
/// Most milliseconds between two questions while the server does not answer.
const AT_MOST: u64 = 30_000;
/// Errors in a row after which the page no longer leaves it to the browser.
const ENOUGH: u32 = 3;
/// Questions after which a page that asks tries to listen again.
const TRY_AGAIN: u32 = 10;

/// A look at what there is now: whether it is over, or nothing when nobody answered.
pub(super) type Looking = Pin<Box<dyn Future<Output = Option<bool>>>>;

/// Who listens.
struct Listener {
    address: String,
    look: Rc<dyn Fn() -> Looking>,
    /// Failures in a row: the connection is lost while it is not zero.
    failed: RwSignal<u32>,
    /// Errors of the stream in a row.
    broken: Cell<u32>,
    /// Questions in a row, while it asks instead of listening.
    asked: Cell<u32>,
    over: Cell<bool>,
    /// How long after it was told it asks, so that much that happens is one question.
    rest: Duration,
    /// Whether it will ask by itself in a moment.
    asks: Cell<bool>,
    ear: RefCell<Option<Ear>>,
}

/// A stream and what it calls.
struct Ear {
    source: EventSource,
    _heard: [Closure<dyn FnMut()>; 3],
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.source.close();
    }
}

/// Looks whenever the server says at `address` that something has changed, `rest` after it says so, until what is looked at
/// is over.
pub(super) fn follow(address: String, rest: Duration, failed: RwSignal<u32>, look: Rc<dyn Fn() -> Looking>) {
    let listener = Rc::new(Listener {
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
    // The page lives as long as this does.
    let _ = window_event_listener_untyped("visibilitychange", move |_| {
        if document().hidden() {
            listener.ear.take();
        } else if listener.ear.borrow().is_none() {
            listen(&listener);
        }
    });
}

fn listen(listener: &Rc<Listener>) {
    if listener.over.get() {
        return;
    }
    let Ok(source) = EventSource::new(&listener.address) else { return ask_later(listener) };
    let (opened, told, erred) = (Rc::clone(listener), Rc::clone(listener), Rc::clone(listener));
    let heard = [
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
            // What is running cannot be dropped: a moment later.
            let erred = Rc::clone(&erred);
            set_timeout(move || deaf(&erred), Duration::ZERO);
        }),
    ];
    source.set_onopen(Some(heard[0].as_ref().unchecked_ref()));
    source.set_onmessage(Some(heard[1].as_ref().unchecked_ref()));
    source.set_onerror(Some(heard[2].as_ref().unchecked_ref()));
    listener.ear.replace(Some(Ear { source, _heard: heard }));
}

/// After an error: asks instead, when the browser does not try again or has tried in vain.
fn deaf(listener: &Rc<Listener>) {
    let closed = listener.ear.borrow().as_ref().is_none_or(|ear| ear.source.ready_state() == EventSource::CLOSED);
    if closed || listener.broken.get() >= ENOUGH {
        listener.ear.take();
        ask_later(listener);
    }
}

/// Asks what there is now.
fn ask(listener: &Rc<Listener>) {
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

/// Asks again after a while; a page that nobody sees does not.
fn ask_later(listener: &Rc<Listener>) {
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

/// How long to wait after so many failures in a row.
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
