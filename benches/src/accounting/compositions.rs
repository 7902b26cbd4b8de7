//! ε of whole compositions, from Rényi curves and from loss distributions.

use serde_json::json;
use support::engine::BrowserEngine;
use tokio::runtime::Runtime;
use undertone_bits::work::{DELTA, compositions, event, renyi, tight};
use undertone_privacy::mechanism::EVALUATOR_VERSION;

use super::peer::AccountingPeer;
use super::{compiled, time};
use crate::report::{Outcome, Report};

/// A method of accounting: its name, its export in the browser's module, and its function.
type Method = (&'static str, &'static str, fn(&undertone_privacy::Event) -> f64);

pub(super) fn measure(report: &mut Report, runtime: &Runtime, engine: &BrowserEngine) -> Outcome {
    let mut peer = AccountingPeer::start()?;
    let versions = json!({
        "undertone-privacy": env!("CARGO_PKG_VERSION"), "evaluator": EVALUATOR_VERSION,
        "peer": peer.versions, "engine": runtime.block_on(engine.version())?,
    });
    // Of the last minute: above the number of cores, all figures are from a busy machine.
    let load =
        std::fs::read_to_string("/proc/loadavg").ok().and_then(|load| load.split(' ').next()?.parse::<f64>().ok());
    report.line(json!({ "versions": versions, "compiled": compiled(), "load": load }))?;
    let methods: [Method; 2] = [("renyi", "renyi_epsilon", renyi), ("loss distribution", "tight_epsilon", tight)];
    for (index, (name, runs)) in compositions().into_iter().enumerate() {
        for (method, export, work) in methods {
            // The measurements alternate, so that a busy moment of the machine affects both.
            let theirs = peer.ask(method, &runs)?;
            let event = event(&runs);
            let (epsilon, seconds) = time(|| work(&event));
            let (in_browser, wasm_seconds) = runtime.block_on(engine.time(&format!("bits.{export}({index})"), 300))?;
            if epsilon.to_bits() != in_browser.to_bits() {
                return Err(format!("{name}: epsilon is {epsilon} here and {in_browser} in the browser").into());
            }
            report.line(json!({
                "composition": name, "method": method, "delta": DELTA,
                "epsilon": epsilon, "peer_epsilon": theirs.epsilon, "epsilon_over_peer": epsilon / theirs.epsilon,
                "seconds": seconds, "peer_seconds": theirs.seconds, "wasm_seconds": wasm_seconds,
                "times_faster": theirs.seconds / seconds, "times_faster_in_wasm": theirs.seconds / wasm_seconds,
            }))?;
        }
    }
    Ok(())
}
