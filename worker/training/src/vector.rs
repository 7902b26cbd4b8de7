//! Loops over vectors, compiled for the processor at hand: AVX2 or AVX-512 if available, selected at run time.

/// Coordinates that one thread processes at a time; also the length of one noise stream.
pub(crate) const STRIDE: usize = 1 << 14;

/// Runs an expression with the processor's vector instructions; the functions it calls must be `#[inline(always)]`.
///
/// The closure moves a value out, so it can be called only once. A closure that can be called repeatedly is called
/// through a separate function without the processor features, and every fused multiply-add in it becomes a library
/// call a hundred times slower.
macro_rules! vectorized {
    ($body:expr) => {{
        struct CalledOnce;
        let once = CalledOnce;
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
