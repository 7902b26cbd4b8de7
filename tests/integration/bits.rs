//! Server, worker and browser compute the same accounting to the last bit, for every kind of event, conversion and
//! decision.

use support::engine::BrowserEngine;

/// The number of differences shown.
const SHOWN: usize = 10;

#[tokio::test]
async fn the_browser_accounts_to_the_same_bits_as_the_server() {
    let native = undertone_bits::facts();
    let engine = BrowserEngine::start().await.unwrap_or_else(|error| panic!("{error}: {error:?}"));
    let wasm = engine.words().await.unwrap_or_else(|error| panic!("{error}: {error:?}"));
    assert!(native.words.len() > 10_000, "only {} words are compared", native.words.len());
    assert_eq!(native.words.len(), wasm.len(), "the module is not built from these sources: run `.ci/bits.sh`");
    let both = native.names.iter().zip(native.words.iter().zip(&wasm));
    let differences = both.filter(|(_, (native, wasm))| native != wasm);
    let differences: Vec<String> = differences
        .map(|(name, (native, wasm))| {
            let numbers = (f64::from_bits(*native), f64::from_bits(*wasm));
            format!("{name}: {native:016x} here, {wasm:016x} in the browser ({:e}, {:e})", numbers.0, numbers.1)
        })
        .collect();
    let excerpt = &differences[..differences.len().min(SHOWN)];
    assert!(differences.is_empty(), "{} of {} words differ:\n{}", differences.len(), wasm.len(), excerpt.join("\n"));
}
