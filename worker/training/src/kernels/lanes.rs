//! The processor's vector instructions: one kernel, compiled for AVX-512, for AVX2 and for the baseline, selected at
//! run time.

use pulp::{Arch, Scalar256b, Simd};

/// The vectors of a processor, with operations that `pulp` does not offer for all of them.
pub(crate) trait SimdLanes: Simd {
    /// Rows of a product whose sums stay in registers, three vectors each: 4 or 8.
    const ROWS: usize;

    /// Truncates toward zero; the values must be within the range of the result.
    fn truncate(self, values: Self::f32s) -> Self::i32s;
}

#[cfg(target_arch = "x86_64")]
impl SimdLanes for pulp::x86::V4 {
    const ROWS: usize = 8;

    #[inline(always)]
    fn truncate(self, values: Self::f32s) -> Self::i32s {
        self.convert_f32x16_to_i32x16(values)
    }
}

#[cfg(target_arch = "x86_64")]
impl SimdLanes for pulp::x86::V3 {
    const ROWS: usize = 4;

    #[inline(always)]
    fn truncate(self, values: Self::f32s) -> Self::i32s {
        self.convert_f32x8_to_i32x8(values)
    }
}

impl SimdLanes for Scalar256b {
    const ROWS: usize = 4;

    #[inline(always)]
    fn truncate(self, values: Self::f32s) -> Self::i32s {
        let values: [f32; 8] = bytemuck::cast(values);
        bytemuck::cast(values.map(|value| value as i32))
    }
}

/// A computation that is compiled for each kind of processor. Every function that it calls must be `#[inline(always)]`.
pub(crate) trait SimdKernel {
    /// The result.
    type Output;

    /// Runs the computation.
    fn run<S: SimdLanes>(self, simd: S) -> Self::Output;
}

/// Runs a kernel with the best vector instructions of the processor.
#[inline]
pub(crate) fn dispatch<K: SimdKernel>(kernel: K) -> K::Output {
    on(Arch::new(), kernel)
}

/// Runs a kernel with the vector instructions `arch`.
#[inline]
pub(crate) fn on<K: SimdKernel>(arch: Arch, kernel: K) -> K::Output {
    // The closures consume the kernel: a closure that can be called twice would be called through a function without
    // the processor features.
    match arch {
        #[cfg(target_arch = "x86_64")]
        Arch::V4(simd) => simd.vectorize(
            #[inline(always)]
            || kernel.run(simd),
        ),
        #[cfg(target_arch = "x86_64")]
        Arch::V3(simd) => simd.vectorize(
            #[inline(always)]
            || kernel.run(simd),
        ),
        _ => kernel.run(Scalar256b),
    }
}

/// Returns all kinds of vector instructions of this processor.
#[cfg(test)]
pub(crate) fn all() -> Vec<Arch> {
    let mut all = vec![Arch::Scalar];
    #[cfg(target_arch = "x86_64")]
    {
        all.extend(pulp::x86::V3::try_new().map(Arch::V3));
        all.extend(pulp::x86::V4::try_new().map(Arch::V4));
    }
    all
}
