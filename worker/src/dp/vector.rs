//! Loops compiled for the processor at hand: AVX2 or AVX-512 where there is one, chosen at run time.

/// Runs an expression with the processor's vector instructions; the functions it calls must be `#[inline(always)]`.
///
/// The closure gives something away, which makes it one that can only be called once: the call of any other closure goes
/// through a function of its own, into which no processor features reach, and every fused multiply-add in it becomes a
/// library call a hundred times slower.
macro_rules! vectorized {
    ($body:expr) => {{
        struct Once;
        let once = Once;
        pulp::Arch::new().dispatch(
            #[inline(always)]
            || {
                let _once = once;
                $body
            },
        )
    }};
}

pub(crate) use vectorized;
