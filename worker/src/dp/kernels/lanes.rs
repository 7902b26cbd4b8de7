//! The processor's vectors: one kernel, compiled for AVX-512, for AVX2 and for any processor, chosen at run time.

use pulp::{Arch, Scalar256b, Simd};

/// Vectors of a processor, with what `pulp` does not name for all of them.
pub(in crate::dp) trait Lanes: Simd {
    /// Rows of a product whose sums stay in the registers, three vectors each: 4 or 8.
    const ROWS: usize;

    /// Whole steps toward zero, for numbers within the range of the result.
    fn truncate(self, values: Self::f32s) -> Self::i32s;
}

#[cfg(target_arch = "x86_64")]
impl Lanes for pulp::x86::V4 {
    const ROWS: usize = 8;

    #[inline(always)]
    fn truncate(self, values: Self::f32s) -> Self::i32s {
        self.convert_f32x16_to_i32x16(values)
    }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for pulp::x86::V3 {
    const ROWS: usize = 4;

    #[inline(always)]
    fn truncate(self, values: Self::f32s) -> Self::i32s {
        self.convert_f32x8_to_i32x8(values)
    }
}

impl Lanes for Scalar256b {
    const ROWS: usize = 4;

    #[inline(always)]
    fn truncate(self, values: Self::f32s) -> Self::i32s {
        let values: [f32; 8] = bytemuck::cast(values);
        bytemuck::cast(values.map(|value| value as i32))
    }
}

/// Work that is compiled for each kind of processor. Everything it calls must be `#[inline(always)]`.
pub(in crate::dp) trait Kernel {
    /// What comes of it.
    type Output;

    /// Does it.
    fn run<S: Lanes>(self, simd: S) -> Self::Output;
}

/// Runs a kernel with the processor's best vectors.
#[inline]
pub(in crate::dp) fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    on(Arch::new(), kernel)
}

/// Runs a kernel with given vectors.
#[inline]
pub(in crate::dp) fn on<K: Kernel>(arch: Arch, kernel: K) -> K::Output {
    // The closures use the kernel up: one that could be called twice would go through a function without the features.
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

/// All kinds of vectors that this processor has.
#[cfg(test)]
pub(in crate::dp) fn all() -> Vec<Arch> {
    let mut all = vec![Arch::Scalar];
    #[cfg(target_arch = "x86_64")]
    {
        all.extend(pulp::x86::V3::try_new().map(Arch::V3));
        all.extend(pulp::x86::V4::try_new().map(Arch::V4));
    }
    all
}
