//! The dashboard in a real browser, at desktop and phone width.
