//! The accounting in a browser's engine: the wasm module built by `.ci/bits.sh`, in a real Chromium. It needs no page
//! and no server, because the module's functions take only numbers.

use std::fs;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use fantoccini::error::CmdError;
use serde_json::{Value, json};

use crate::browser::{BrowserError, EmulatedScreen, TestBrowser};
use crate::workspace;

/// Reasons why the engine did not answer.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The module does not exist.
    #[error("undertone_bits.wasm has not been built: run `.ci/bits.sh` first")]
    Missing(#[source] std::io::Error),
    /// The browser failed.
    #[error(transparent)]
    Browser(#[from] BrowserError),
    /// A script failed.
    #[error("a script failed in the browser")]
    Script(#[from] CmdError),
    /// The answer has an unexpected form.
    #[error("the engine was asked for {wanted} and answered {answer}")]
    Answer {
        /// The requested value.
        wanted: &'static str,
        /// The answer.
        answer: Value,
    },
}

/// A browser with the module loaded.
#[derive(Debug)]
pub struct BrowserEngine {
    browser: TestBrowser,
}

impl BrowserEngine {
    /// Starts a browser and loads the module.
    ///
    /// # Errors
    /// If the module or the browser is missing.
    pub async fn start() -> Result<Self, EngineError> {
        let path = workspace::program("undertone_bits.wasm").map_err(EngineError::Missing)?;
        let module = fs::read(path).map_err(EngineError::Missing)?;
        let engine = Self { browser: TestBrowser::open(EmulatedScreen::Desktop).await? };
        // The content policy of the browser's initial page forbids foreign code.
        engine.browser.goto("about:blank").await?;
        let script = "const [module, done] = arguments;
            const bytes = Uint8Array.from(atob(module), letter => letter.charCodeAt(0));
            WebAssembly.instantiate(bytes, {}).then(
                loaded => { window.bits = loaded.instance.exports; done('loaded'); }, error => done(String(error)));";
        let client = engine.browser.client();
        let answer = client.execute_async(script, vec![json!(BASE64_STANDARD.encode(module))]).await?;
        if answer == "loaded" { Ok(engine) } else { Err(EngineError::Answer { wanted: "the module", answer }) }
    }

    /// Returns every word to be compared.
    ///
    /// # Errors
    /// If the module fails.
    pub async fn words(&self) -> Result<Vec<u64>, EngineError> {
        // As text, because a number of JavaScript has 53 bits.
        let script = "const words = [];
            for (let i = 0, all = bits.words(); i < all; i++) words.push(BigInt.asUintN(64, bits.word(i)).toString(16));
            return words.join(' ');";
        let answer = self.browser.client().execute(script, Vec::new()).await?;
        let words = answer.as_str().map(|text| text.split(' ').map(|word| u64::from_str_radix(word, 16)));
        let words = words.and_then(|words| words.collect::<Result<Vec<_>, _>>().ok());
        words.ok_or(EngineError::Answer { wanted: "words", answer })
    }

    /// Returns the value of `call` (an expression on `bits`) and its median time in seconds, over at least five calls
    /// and so many milliseconds. A first call, in which the engine compiles, does not count.
    ///
    /// # Errors
    /// If the module fails.
    pub async fn time(&self, call: &str, milliseconds: u32) -> Result<(f64, f64), EngineError> {
        let script = format!(
            "let value = {call};
            const times = [], until = performance.now() + {milliseconds};
            while (times.length < 5 || performance.now() < until) {{
                const start = performance.now();
                value = {call};
                times.push(performance.now() - start);
            }}
            times.sort((a, b) => a - b);
            return [value ?? 0, times[times.length >> 1] / 1000];"
        );
        let answer = self.browser.client().execute(&script, Vec::new()).await?;
        let numbers = (answer[0].as_f64(), answer[1].as_f64());
        let (Some(value), Some(seconds)) = numbers else {
            return Err(EngineError::Answer { wanted: "a time", answer });
        };
        Ok((value, seconds))
    }

    /// Evaluates an expression on `bits` once.
    ///
    /// # Errors
    /// If the module fails.
    pub async fn call(&self, call: &str) -> Result<(), EngineError> {
        self.browser.client().execute(&format!("{call};"), Vec::new()).await?;
        Ok(())
    }

    /// Returns the engine's name and version.
    ///
    /// # Errors
    /// If the browser is gone.
    pub async fn version(&self) -> Result<String, EngineError> {
        let answer = self.browser.client().execute("return navigator.userAgent;", Vec::new()).await?;
        let name = answer.as_str().unwrap_or_default().split(' ').find(|part| part.contains("Chrome/"));
        Ok(name.unwrap_or("an unknown browser").to_owned())
    }
}
